// Compares collectives with exact results: every dtype and operator, and sizes that divide nothing, aligned and not.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "perf/common/collectives.hpp"

namespace wreath::perf {

// The results of a check by all ranks together.
struct CheckResult {
  // The checks: sizes x dtypes x operators, out of place and in place, aligned and not.
  std::uint64_t rows = 0;
  std::uint64_t wrong = 0;  // elements, and bytes written out of bounds
  double seconds = 0;
};

// Shows a short line, which the next one replaces. Rank 0 calls it.
using Progress = std::function<void(const std::string&)>;

// Checks sizes from 8 bytes to 300,001, all dtypes and operators, and roots in turn. Like the other checks it is
// collective: every rank calls it in the same way.
Result<CheckResult> check_all(Member& member, const CollectiveRow& row, const Progress& progress);
// Checks float sums of 64 MiB.
Result<CheckResult> check_large(Member& member, const CollectiveRow& row, const Progress& progress);
// Checks uint8 sums of 4.5 GiB in place, which have more elements than 32 bits count. Each rank needs kHugeBytes.
inline constexpr std::size_t kHugeBytes = (std::size_t{9} << 29) + 3;
Result<CheckResult> check_huge(Member& member, const CollectiveRow& row, const Progress& progress);

}  // namespace wreath::perf
