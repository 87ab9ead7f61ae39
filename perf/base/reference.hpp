// The expected results of reductions: the canonical tree over ranks in the accumulator's type, rounded once, by the
// kernels' scalar reference. Perf tools and conformance tests compare results with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wreath/types.hpp"

namespace wreath::perf {

// Returns the reduction that rank `rank` passes for `op`. A premultiplied sum has the factors 2, 3, 1, 2, ..., which
// are exact in every dtype.
Reduction reduction_of(ReduceOp op, Rank rank);
inline constexpr int kLargestFactor = 3;

// Computes output[i] = inputs[0][i] op ... op inputs[n-1][i]. Each buffer has `elements` elements of `dtype`, and
// `inputs` has one buffer for each rank, in rank order. `output` may be one of the inputs.
void reduce_ranks(DataType dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* output,
                  std::size_t elements);

// Writes `values` as elements of `dtype`, rounded to nearest even. Integers wrap.
void encode(DataType dtype, std::span<const double> values, std::byte* target);

// Returns a value for each key, without order, by the last steps of splitmix64.
constexpr std::uint64_t mix(std::uint64_t key) {
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ULL;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebULL;
  return key ^ (key >> 31);
}

}  // namespace wreath::perf
