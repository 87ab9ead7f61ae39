// Moving and summing bytes with all threads of a block, 16 bytes at a time where the pointers allow it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__CUDACC__)
#define WREATH_UNROLL _Pragma("unroll")
#else
#define WREATH_UNROLL
#endif

namespace wreath {

// One block-wide piece of work. Leader and workers read it from shared memory.
struct BlockWork {
  enum class Kind : std::uint8_t { Copy, Reduce, Stop };
  Kind kind;
  std::byte* target;
  const std::byte* const* sources;  // Copy: one
  int k;
  std::size_t units;  // Copy: bytes; Reduce: elements
};

// Four elements of a 16-byte access, or one.
template <typename T, int N>
struct Pack {
  T value[unsigned{N}];
};

template <typename T>
__device__ inline T canonical(T value) {
  return value;
}
// As on the CPU: a sum that is NaN is the quiet NaN 0x7fc00000.
template <>
__device__ inline float canonical<float>(float value) {
  return isnan(value) ? __uint_as_float(0x7fc00000u) : value;
}

template <typename T, int N>
__device__ inline Pack<T, N> add(const Pack<T, N>& a, const Pack<T, N>& b) {
  Pack<T, N> sum;
  WREATH_UNROLL
  for (int i = 0; i < N; ++i) sum.value[i] = a.value[i] + b.value[i];
  return sum;
}

template <typename T, int N>
__device__ inline Pack<T, N> load(const std::byte* source, std::size_t index) {
  using Access = std::conditional_t<N == 4, uint4, std::uint32_t>;
  static_assert(sizeof(Access) == sizeof(Pack<T, N>));
  const Access word = reinterpret_cast<const Access*>(source)[index];
  Pack<T, N> pack;
  memcpy(&pack, &word, sizeof(pack));
  return pack;
}

template <typename T, int N>
__device__ inline void store(std::byte* target, std::size_t index, const Pack<T, N>& pack) {
  using Access = std::conditional_t<N == 4, uint4, std::uint32_t>;
  Access word;
  memcpy(&word, &pack, sizeof(word));
  reinterpret_cast<Access*>(target)[index] = word;
}

// The canonical tree over k sources (kernels.hpp), as a binary counter over its leaves: after leaf i, as many
// sums merge as i + 1 has trailing zeros. K > 0 fixes k and unrolls; K = 0 takes it at run time, up to 511.
template <typename T, int N, int K>
__device__ inline Pack<T, N> tree_sum(const std::byte* const* sources, int given_k, std::size_t index) {
  const int k = K > 0 ? K : given_k;
  const int leaves = 1 << (31 - __clz(k));
  const int paired = k - leaves;
  Pack<T, N> stack[K > 0 ? 4 : 9];
  int depth = 0;
  WREATH_UNROLL
  for (int leaf = 0; leaf < leaves; ++leaf) {
    Pack<T, N> sum = leaf < paired ? add(load<T, N>(sources[2 * leaf], index), load<T, N>(sources[2 * leaf + 1], index))
                                   : load<T, N>(sources[leaf + paired], index);
    for (int done = leaf + 1; done % 2 == 0; done /= 2) sum = add(stack[--depth], sum);
    stack[depth++] = sum;
  }
  return stack[0];
}

template <typename T, int N, int K>
__device__ inline void reduce_packs(const BlockWork& work, std::size_t first, std::size_t end) {
  for (std::size_t i = first + threadIdx.x; i < end; i += blockDim.x) {
    Pack<T, N> sum = tree_sum<T, N, K>(work.sources, work.k, i);
    WREATH_UNROLL
    for (int j = 0; j < N; ++j) sum.value[j] = canonical(sum.value[j]);
    store(work.target, i, sum);
  }
}

template <typename T, int N>
__device__ inline void reduce_by_k(const BlockWork& work, std::size_t first, std::size_t end) {
  switch (work.k) {
    case 2: return reduce_packs<T, N, 2>(work, first, end);
    case 3: return reduce_packs<T, N, 3>(work, first, end);
    case 4: return reduce_packs<T, N, 4>(work, first, end);
    case 8: return reduce_packs<T, N, 8>(work, first, end);
    default: return reduce_packs<T, N, 0>(work, first, end);
  }
}

__device__ inline bool aligned_to_16(const BlockWork& work) {
  std::uint64_t bits = reinterpret_cast<std::uint64_t>(work.target);
  for (int i = 0; i < work.k; ++i) bits |= reinterpret_cast<std::uint64_t>(work.sources[i]);
  return bits % 16 == 0;
}

__device__ inline void block_copy(const BlockWork& work) {
  const std::size_t words = aligned_to_16(work) ? work.units / 16 : 0;
  const std::byte* source = work.sources[0];
  for (std::size_t i = threadIdx.x; i < words; i += blockDim.x) {
    reinterpret_cast<uint4*>(work.target)[i] = reinterpret_cast<const uint4*>(source)[i];
  }
  for (std::size_t i = words * 16 + threadIdx.x; i < work.units; i += blockDim.x) work.target[i] = source[i];
}

// T has 4 bytes, k is 2 or more and all pointers are aligned to T. Integers wrap: T is unsigned for them.
template <typename T>
__device__ inline void block_reduce(const BlockWork& work) {
  const std::size_t packs = aligned_to_16(work) ? work.units / 4 : 0;
  reduce_by_k<T, 4>(work, 0, packs);
  reduce_by_k<T, 1>(work, packs * 4, work.units);
}

}  // namespace wreath
