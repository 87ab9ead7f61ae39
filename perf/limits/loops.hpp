// The least memory work of an all-reduce: one pass that sums sources and stores the sum to several targets.
#pragma once

#include <cstddef>

namespace wreath::perf {

inline constexpr int kMaximumTeam = 64;

struct SumWork {
  int source_count = 0;
  int target_count = 0;
  const float* sources[kMaximumTeam] = {};
  float* targets[kMaximumTeam] = {};
};

// Stores to each target[i] the sum of the sources' [i], from left to right, which is not the canonical order.
// `streaming` uses non-temporal stores, to targets aligned to 64 bytes, and a store fence at the end.
void sum_to_all(const SumWork& work, std::size_t elements, bool streaming);

}  // namespace wreath::perf
