// Holding collectives to exact results: every dtype and operator, sizes that divide nothing, aligned and not.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "perf/common/collectives.hpp"

namespace wreath::perf {

// What was checked, by all ranks together.
struct CheckResult {
  std::uint64_t rows = 0;   // sizes x dtypes x operators, out of place and in place, aligned and not
  std::uint64_t wrong = 0;  // elements, and bytes written out of bounds
  double seconds = 0;
};

// Rank 0 shows a short line, replaced by the next.
using Progress = std::function<void(const std::string&)>;

// All are collective: every rank calls them alike. From 8 bytes to 300,001, all dtypes and operators, roots in turn.
Result<CheckResult> check_all(Member& member, const CollectiveRow& row, const Progress& progress);
// Float sums of 64 MiB.
Result<CheckResult> check_large(Member& member, const CollectiveRow& row, const Progress& progress);
// uint8 sums of 4.5 GiB in place: more elements than 32 bits count. Needs kHugeBytes for each rank.
inline constexpr std::size_t kHugeBytes = (std::size_t{9} << 29) + 3;
Result<CheckResult> check_huge(Member& member, const CollectiveRow& row, const Progress& progress);

}  // namespace wreath::perf
