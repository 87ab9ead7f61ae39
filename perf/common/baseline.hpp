// Judging a run by a kept one: --baseline.
#pragma once

#include <string>
#include <vector>

#include "perf/common/kept.hpp"

namespace wreath::perf {

enum class Verdict { Same, Slower, Faster };

// By intervals that hold the medians with 90 %: slower where all of `now` lies more than `tolerance_percent` above the
// end of `kept`, faster where all of it lies as far below its beginning.
Verdict judge(const Interval& kept, const Interval& now, double tolerance_percent) noexcept;

struct Judgement {
  std::string table;                // for people, below the run's own
  std::vector<std::string> slower;  // "64K out of place (1.31 times)"
  int compared = 0;
};
Judgement judge_rows(const Report& report, const Kept& kept);

// Whether `kept` can judge a run of that setup: kept under the same circumstances, with intervals. Errors name
// everything that differs.
Status check_baseline(const Kept& kept, const Setup& now);

}  // namespace wreath::perf
