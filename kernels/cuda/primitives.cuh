// Moving and combining bytes with all threads of a block, up to 16 bytes at a time where the pointers allow it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/kernels.hpp"

#if defined(__CUDACC__)
#define WREATH_UNROLL _Pragma("unroll")
#else
#define WREATH_UNROLL
#endif

namespace wreath {

// One block-wide piece of work. Leader and workers read it from shared memory.
struct BlockWork {
  enum class Kind : std::uint8_t { Copy, Combine, Stop };
  Kind kind;
  Form target_form;
  std::byte* target;
  const std::byte* const* sources;  // Copy: one
  int k;
  Operands operands;
  std::size_t units;  // Copy: bytes; Combine: elements
};

// Accumulators of N neighbouring elements.
template <typename A, int N>
struct Pack {
  A value[unsigned{N}];
};

// Memory is read and written in words of so many bytes.
template <int kBytes>
using AccessWord = std::conditional_t<
    kBytes % 16 == 0, uint4,
    std::conditional_t<kBytes % 8 == 0, std::uint64_t,
                       std::conditional_t<kBytes % 4 == 0, std::uint32_t,
                                          std::conditional_t<kBytes % 2 == 0, std::uint16_t, std::uint8_t>>>>;

template <typename T, int N>
__device__ inline Pack<T, N> load(const std::byte* source, std::size_t index) {
  using Access = AccessWord<static_cast<int>(sizeof(T)) * N>;
  constexpr unsigned kWords = sizeof(T) * N / sizeof(Access);
  Access words[kWords];
  WREATH_UNROLL
  for (unsigned i = 0; i < kWords; ++i) words[i] = reinterpret_cast<const Access*>(source)[index * kWords + i];
  Pack<T, N> pack;
  memcpy(&pack, words, sizeof(pack));
  return pack;
}

template <typename T, int N>
__device__ inline void store(std::byte* target, std::size_t index, const Pack<T, N>& pack) {
  using Access = AccessWord<static_cast<int>(sizeof(T)) * N>;
  constexpr unsigned kWords = sizeof(T) * N / sizeof(Access);
  Access words[kWords];
  memcpy(words, &pack, sizeof(pack));
  WREATH_UNROLL
  for (unsigned i = 0; i < kWords; ++i) reinterpret_cast<Access*>(target)[index * kWords + i] = words[i];
}

// The combination of one pack of N elements: kernels.hpp's rules. K > 0 fixes it, one or two; K = 0
// takes it at run time, up to 511.
template <typename T, int N, int K>
class PackCombiner {
 public:
  using A = Accumulator<T>;

  __device__ PackCombiner(const Arithmetic& arithmetic, const BlockWork& work) : arithmetic_(arithmetic), work_(work) {}

  __device__ void run(std::size_t index) const {
    const Pack<A, N> result = tree(index);
    if (work_.target_form == Form::Partial) {
      Pack<A, N> partial;
      WREATH_UNROLL
      for (int i = 0; i < N; ++i) partial.value[i] = canonical(result.value[i]);
      return store(work_.target, index, partial);
    }
    const bool divides = arithmetic_.reduction.op == ReduceOp::Avg;
    Pack<T, N> finished;
    WREATH_UNROLL
    for (int i = 0; i < N; ++i) {
      finished.value[i] = narrow<T>(divides ? divide(result.value[i], arithmetic_.ranks) : result.value[i]);
    }
    store(work_.target, index, finished);
  }

 private:
  __device__ Pack<A, N> read(int source, std::size_t index) const {
    const Form form = source == work_.operands.own ? work_.operands.own_form : work_.operands.messages;
    if (form == Form::Partial) return load<A, N>(work_.sources[source], index);
    const Pack<T, N> data = load<T, N>(work_.sources[source], index);
    const bool premultiplies = arithmetic_.reduction.op == ReduceOp::PremultipliedSum;
    const A factor = factor_in<A>(arithmetic_.reduction);
    Pack<A, N> wide;
    WREATH_UNROLL
    for (int i = 0; i < N; ++i) {
      wide.value[i] = widen(data.value[i]);
      if (premultiplies) wide.value[i] = multiply(wide.value[i], factor);
    }
    return wide;
  }

  __device__ Pack<A, N> pair(const Pack<A, N>& a, const Pack<A, N>& b) const {
    switch (arithmetic_.reduction.op) {
      case ReduceOp::Prod: return pair<ReduceOp::Prod>(a, b);
      case ReduceOp::Min: return pair<ReduceOp::Min>(a, b);
      case ReduceOp::Max: return pair<ReduceOp::Max>(a, b);
      default: return pair<ReduceOp::Sum>(a, b);
    }
  }
  template <ReduceOp kOp>
  __device__ static Pack<A, N> pair(const Pack<A, N>& a, const Pack<A, N>& b) {
    Pack<A, N> both;
    WREATH_UNROLL
    for (int i = 0; i < N; ++i) both.value[i] = combine_pair(kOp, a.value[i], b.value[i]);
    return both;
  }

  // The canonical tree as a binary counter over its leaves: after leaf i, as many results merge as i + 1 has
  // trailing zeros.
  __device__ Pack<A, N> tree(std::size_t index) const {
    const int k = K > 0 ? K : work_.k;
    const int leaves = 1 << (31 - __clz(k));
    const int paired = k - leaves;
    Pack<A, N> stack[K > 0 ? 1 : 9];
    int depth = 0;
    for (int leaf = 0; leaf < leaves; ++leaf) {
      Pack<A, N> result =
          leaf < paired ? pair(read(2 * leaf, index), read(2 * leaf + 1, index)) : read(leaf + paired, index);
      for (int done = leaf + 1; done % 2 == 0; done /= 2) result = pair(stack[--depth], result);
      stack[depth++] = result;
    }
    return stack[0];
  }

  const Arithmetic& arithmetic_;
  const BlockWork& work_;
};

template <typename T, int N, int K>
__device__ inline void combine_packs(const Arithmetic& arithmetic, const BlockWork& work, std::size_t first,
                                     std::size_t end) {
  const PackCombiner<T, N, K> combiner(arithmetic, work);
  for (std::size_t i = first + threadIdx.x; i < end; i += blockDim.x) combiner.run(i);
}

template <typename T, int N>
__device__ inline void combine_by_k(const Arithmetic& arithmetic, const BlockWork& work, std::size_t first,
                                    std::size_t end) {
  switch (work.k) {
    case 1: return combine_packs<T, N, 1>(arithmetic, work, first, end);
    case 2: return combine_packs<T, N, 2>(arithmetic, work, first, end);
    default: return combine_packs<T, N, 0>(arithmetic, work, first, end);
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

// All pointers are aligned to elements of their form.
template <typename T>
__device__ inline void block_combine(const Arithmetic& arithmetic, const BlockWork& work) {
  constexpr int kPack = sizeof(Accumulator<T>) == 8 ? 2 : 4;
  const std::size_t packs = aligned_to_16(work) ? work.units / kPack : 0;
  combine_by_k<T, kPack>(arithmetic, work, 0, packs);
  combine_packs<T, 1, 0>(arithmetic, work, packs * kPack, work.units);
}

}  // namespace wreath
