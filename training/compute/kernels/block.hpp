// The training layer's kernels share this: loops of a grid over elements, sums of a block. One source serves GPUs and
// blocks of host threads (wreath/kernel.hpp). A kernel is a Run, its arguments, and run_kernel(block, run). Sums are
// trees over a block's threads, without atomics: the number of blocks changes no bits, that of threads may.
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

// Threads of a block on a GPU, and the most of one on the host device.
inline constexpr int kKernelThreads = 256;

// The most values of a head that attention takes on a device.
inline constexpr int kMostHeadSize = 128;

// The fewest threads that a block of this kind is launched with: so many times fewer values has each thread to hold.
template <typename Block>
inline constexpr unsigned kFewestThreads = 1;

// A block's threads share this in most kernels.
struct BlockSums {
  double partial[kKernelThreads];
};

// left * right + sum, rounded once: as the CPU's matrix product has it.
WREATH_HOST_DEVICE inline float fused(float left, float right, float sum) { return std::fma(left, right, sum); }

// body(i) for all i < count, neighbours by neighbours.
template <typename Block, typename Body>
WREATH_HOST_DEVICE inline void for_elements(const Block& block, std::uint32_t blocks, std::uint64_t count,
                                            const Body& body) {
  const std::uint64_t stride = std::uint64_t{blocks} * block.threads();
  for (std::uint64_t i = std::uint64_t{block.block()} * block.threads() + block.thread(); i < count; i += stride) {
    body(i);
  }
}

// combine() of the values of all threads, for all of them, who all call it.
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
  block.barrier();  // before somebody's next value
  return result;
}

// The sum of term(i) for i < count, for all threads.
template <typename T, typename Block, typename Term>
WREATH_HOST_DEVICE inline T sum_in_block(Block& block, std::uint64_t count, const Term& term) {
  T sum = 0;
  for (std::uint64_t i = block.thread(); i < count; i += block.threads()) sum += term(i);
  return combine_in_block<T>(block, sum, [](T a, T b) { return a + b; });
}

}  // namespace wreath::training
