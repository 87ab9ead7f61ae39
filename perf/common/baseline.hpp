// Judges a run by a kept one, for --baseline.
#pragma once

#include <string>
#include <vector>

#include "perf/common/kept.hpp"

namespace wreath::perf {

// The verdict on the time of a row.
enum class Verdict { Same, Slower, Faster };

// Compares intervals that hold the medians with 90 %. The verdict is slower where all of `now` lies more than
// `tolerance_percent` above the end of `kept`. It is faster where all of `now` lies as far below the beginning of
// `kept`.
Verdict judge(const Interval& kept, const Interval& now, double tolerance_percent) noexcept;

struct Judgement {
  std::string table;                // printed below the run's own table
  std::vector<std::string> slower;  // "64K out of place (1.31 times)"
  int compared = 0;
};
Judgement judge_rows(const Report& report, const Kept& kept);

// Checks whether `kept` can judge a run of that setup: it must have intervals, and be kept under the same
// circumstances. The error names everything that differs.
Status check_baseline(const Kept& kept, const Setup& now);

}  // namespace wreath::perf
