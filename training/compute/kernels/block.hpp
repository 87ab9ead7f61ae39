// This file has the parts that the training layer's kernels share: loops of a grid over elements and sums of a block.
// One source serves GPUs and blocks of host threads (wreath/kernel.hpp). A kernel is a Run, which holds its arguments,
// and run_kernel(block, run). Sums are trees over a block's threads, without atomics. The number of blocks never
// changes a bit; the number of threads may.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "wreath/host_device.hpp"

#if defined(__CUDACC__)
#define WREATH_UNROLL_ON_GPU _Pragma("unroll")
#else
#define WREATH_UNROLL_ON_GPU
#endif

namespace wreath::training {

// The threads of a block on a GPU, and the most threads of a block on the host device.
inline constexpr int kKernelThreads = 256;

// The most values of a head that attention takes on a device.
inline constexpr int kMostHeadSize = 128;

// The fewest threads that a block of this kind is launched with. More threads leave each thread fewer values to hold.
template <typename Block>
inline constexpr unsigned kFewestThreads = 1;

// The memory that a block's threads share in most kernels.
struct BlockSums {
  double partial[kKernelThreads];
};

// Returns left * right + sum, rounded once, like the CPU's matrix product.
WREATH_HOST_DEVICE inline float fused(float left, float right, float sum) { return std::fma(left, right, sum); }

// Calls body(i) for all i < count. Neighbouring threads take neighbouring elements.
template <typename Block, typename Body>
WREATH_HOST_DEVICE inline void for_elements(const Block& block, std::uint32_t blocks, std::uint64_t count,
                                            const Body& body) {
  const std::uint64_t stride = std::uint64_t{blocks} * block.threads();
  for (std::uint64_t i = std::uint64_t{block.block()} * block.threads() + block.thread(); i < count; i += stride) {
    body(i);
  }
}

// Combines the values of all threads by combine() and returns the result to each of them. All threads of the block call
// it.
template <typename T, typename Block, typename Combine>
WREATH_HOST_DEVICE inline T combine_in_block(Block& block, T value, const Combine& combine) {
  T* partial = reinterpret_cast<T*>(block.shared_memory());
  const unsigned thread = block.thread();
  partial[thread] = value;
  block.barrier();
  for (unsigned width = block.threads(); width > 1;) {
    const unsigned half = (width + 1) / 2;
    if (thread < width / 2) partial[thread] = combine(partial[thread], partial[thread + half]);
    block.barrier();
    width = half;
  }
  const T result = partial[0];
  // Nobody writes the next value before all have read the result.
  block.barrier();
  return result;
}

// Returns the sum of term(i) for i < count to all threads, which all call it.
template <typename T, typename Block, typename Term>
WREATH_HOST_DEVICE inline T sum_in_block(Block& block, std::uint64_t count, const Term& term) {
  T sum = 0;
  for (std::uint64_t i = block.thread(); i < count; i += block.threads()) sum += term(i);
  return combine_in_block<T>(block, sum, [](T a, T b) { return a + b; });
}

}  // namespace wreath::training
