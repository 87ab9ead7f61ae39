// Moving and combining bytes with all threads of a block, 16 bytes at a time where the pointers allow it and several
// loads before the first store: what hides the time that a load takes. One source for a GPU and for the host, where a
// block is a group of threads. `Block` says who a thread is: thread(), threads().
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/kernels.hpp"

#if defined(__CUDACC__)
#define WREATH_UNROLL _Pragma("unroll")
namespace wreath {
using Word16 = uint4;
}
#else
#define WREATH_UNROLL
namespace wreath {
struct __attribute__((may_alias, aligned(16))) Word16 {
  std::uint64_t half[2];
};
}  // namespace wreath
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

// body(T{}), T being the dtype's.
template <typename Body>
WREATH_HOST_DEVICE inline void for_dtype(DataType dtype, const Body& body) {
  switch (dtype) {
    case DataType::Int8: return body(std::int8_t{});
    case DataType::Uint8: return body(std::uint8_t{});
    case DataType::Int32: return body(std::int32_t{});
    case DataType::Uint32: return body(std::uint32_t{});
    case DataType::Int64: return body(std::int64_t{});
    case DataType::Uint64: return body(std::uint64_t{});
    case DataType::Float16: return body(Float16{});
    case DataType::Float32: return body(float{});
    case DataType::Float64: return body(double{});
    case DataType::BFloat16: return body(BFloat16{});
    case DataType::Float8E4M3: return body(Float8E4M3{});
    case DataType::Float8E5M2: return body(Float8E5M2{});
  }
}

// Accumulators of N neighbouring elements.
template <typename A, int N>
struct Pack {
  A value[unsigned{N}];
};

// Memory is read and written in words of so many bytes.
template <int kBytes>
using AccessWord = std::conditional_t<
    kBytes % 16 == 0, Word16,
    std::conditional_t<kBytes % 8 == 0, std::uint64_t,
                       std::conditional_t<kBytes % 4 == 0, std::uint32_t,
                                          std::conditional_t<kBytes % 2 == 0, std::uint16_t, std::uint8_t>>>>;

template <typename T, int N>
WREATH_HOST_DEVICE inline Pack<T, N> load(const std::byte* source, std::size_t index) {
  using Access = AccessWord<static_cast<int>(sizeof(T)) * N>;
  constexpr unsigned kWords = sizeof(T) * N / sizeof(Access);
  Access words[kWords];
  WREATH_UNROLL
  for (unsigned i = 0; i < kWords; ++i) words[i] = reinterpret_cast<const Access*>(source)[index * kWords + i];
  Pack<T, N> pack;
  std::memcpy(&pack, words, sizeof(pack));
  return pack;
}

template <typename T, int N>
WREATH_HOST_DEVICE inline void store(std::byte* target, std::size_t index, const Pack<T, N>& pack) {
  using Access = AccessWord<static_cast<int>(sizeof(T)) * N>;
  constexpr unsigned kWords = sizeof(T) * N / sizeof(Access);
  Access words[kWords];
  std::memcpy(words, &pack, sizeof(pack));
  WREATH_UNROLL
  for (unsigned i = 0; i < kWords; ++i) reinterpret_cast<Access*>(target)[index * kWords + i] = words[i];
}

template <ReduceOp kOp, typename A, int N>
WREATH_HOST_DEVICE inline Pack<A, N> merge(const Pack<A, N>& a, const Pack<A, N>& b) {
  Pack<A, N> both;
  WREATH_UNROLL
  for (int i = 0; i < N; ++i) both.value[i] = combine_pair(kOp, a.value[i], b.value[i]);
  return both;
}

template <typename A, int N>
WREATH_HOST_DEVICE inline Pack<A, N> merge(ReduceOp op, const Pack<A, N>& a, const Pack<A, N>& b) {
  switch (op) {
    case ReduceOp::Prod: return merge<ReduceOp::Prod>(a, b);
    case ReduceOp::Min: return merge<ReduceOp::Min>(a, b);
    case ReduceOp::Max: return merge<ReduceOp::Max>(a, b);
    default: return merge<ReduceOp::Sum>(a, b);
  }
}

// The canonical tree over read(0), ..., read(k - 1), called in this order, as a binary counter over its leaves: after
// leaf i, as many results merge as i + 1 has trailing zeros. kStack: 1 + log2 of the largest k.
template <typename Combined, unsigned kStack, typename Read>
WREATH_HOST_DEVICE inline Combined canonical_tree(ReduceOp op, int k, const Read& read) {
  const int leaves = static_cast<int>(std::bit_floor(static_cast<unsigned>(k)));
  const int paired = k - leaves;
  Combined stack[kStack] = {};
  int depth = 0;
  int next = 0;
  Combined result{};
  for (int leaf = 0; leaf < leaves; ++leaf) {
    result = read(next++);
    if (leaf < paired) result = merge(op, result, read(next++));
    for (int done = leaf + 1; done % 2 == 0; done /= 2) result = merge(op, stack[--depth], result);
    stack[depth++] = result;
  }
  return result;
}

template <typename T, int N>
WREATH_HOST_DEVICE inline Pack<Accumulator<T>, N> widen_input(const Arithmetic& arithmetic, const Pack<T, N>& data) {
  using A = Accumulator<T>;
  const bool premultiplies = arithmetic.reduction.op == ReduceOp::PremultipliedSum;
  const A factor = factor_in<A>(arithmetic.reduction);
  Pack<A, N> wide;
  WREATH_UNROLL
  for (int i = 0; i < N; ++i) {
    wide.value[i] = widen(data.value[i]);
    if (premultiplies) wide.value[i] = multiply(wide.value[i], factor);
  }
  return wide;
}

template <typename T, int N>
WREATH_HOST_DEVICE inline Pack<T, N> finish_sum(const Arithmetic& arithmetic, const Pack<Accumulator<T>, N>& sum) {
  const bool divides = arithmetic.reduction.op == ReduceOp::Avg;
  Pack<T, N> finished;
  WREATH_UNROLL
  for (int i = 0; i < N; ++i) {
    finished.value[i] = narrow<T>(divides ? divide(sum.value[i], arithmetic.ranks) : sum.value[i]);
  }
  return finished;
}

template <typename A, int N>
WREATH_HOST_DEVICE inline Pack<A, N> canonical_pack(const Pack<A, N>& wide) {
  Pack<A, N> partial;
  WREATH_UNROLL
  for (int i = 0; i < N; ++i) partial.value[i] = canonical(wide.value[i]);
  return partial;
}

// The combination of one pack of N elements: kernels.hpp's rules. K > 0 fixes it, one or two; K = 0
// takes it at run time, up to 511.
template <typename T, int N, int K>
class PackCombiner {
 public:
  using A = Accumulator<T>;

  WREATH_HOST_DEVICE PackCombiner(const Arithmetic& arithmetic, const BlockWork& work)
      : arithmetic_(arithmetic), work_(work) {}

  // Packs first, first + stride, ...: kPacks of them, all read before the first is written.
  template <int kPacks>
  WREATH_HOST_DEVICE void run(std::size_t first, std::size_t stride) const {
    Pack<A, N> results[unsigned{kPacks}];
    WREATH_UNROLL
    for (unsigned i = 0; i < kPacks; ++i) results[i] = tree(first + i * stride);
    WREATH_UNROLL
    for (unsigned i = 0; i < kPacks; ++i) finish(first + i * stride, results[i]);
  }

 private:
  WREATH_HOST_DEVICE void finish(std::size_t index, const Pack<A, N>& result) const {
    if (work_.target_form == Form::Partial) return store(work_.target, index, canonical_pack(result));
    store(work_.target, index, finish_sum<T>(arithmetic_, result));
  }

  WREATH_HOST_DEVICE Pack<A, N> read(int source, std::size_t index) const {
    const Form form = source == work_.operands.own ? work_.operands.own_form : work_.operands.messages;
    if (form == Form::Partial) return load<A, N>(work_.sources[source], index);
    return widen_input(arithmetic_, load<T, N>(work_.sources[source], index));
  }

  WREATH_HOST_DEVICE Pack<A, N> tree(std::size_t index) const {
    return canonical_tree<Pack<A, N>, (K > 0 ? 1 : 9)>(arithmetic_.reduction.op, K > 0 ? K : work_.k,
                                                       [&](int source) { return read(source, index); });
  }

  const Arithmetic& arithmetic_;
  const BlockWork& work_;
};

// Packs [first, end), kPacks of each thread in flight.
template <typename T, int N, int K, int kPacks, typename Block>
WREATH_HOST_DEVICE inline void combine_packs(const Block& block, const Arithmetic& arithmetic, const BlockWork& work,
                                             std::size_t first, std::size_t end) {
  const PackCombiner<T, N, K> combiner(arithmetic, work);
  const std::size_t threads = block.threads();
  std::size_t i = first + block.thread();
  if constexpr (kPacks > 1) {
    for (; i + (kPacks - 1) * threads < end; i += kPacks * threads) combiner.template run<kPacks>(i, threads);
  }
  for (; i < end; i += threads) combiner.template run<1>(i, threads);
}

WREATH_HOST_DEVICE inline bool aligned_to_16(const BlockWork& work) {
  std::uint64_t bits = reinterpret_cast<std::uint64_t>(work.target);
  for (int i = 0; i < work.k; ++i) bits |= reinterpret_cast<std::uint64_t>(work.sources[i]);
  return bits % 16 == 0;
}

template <typename Block>
WREATH_HOST_DEVICE inline void block_copy(const Block& block, const BlockWork& work) {
  constexpr unsigned kWords = 8;  // of each thread in flight
  const std::size_t words = aligned_to_16(work) ? work.units / sizeof(Word16) : 0;
  const std::size_t threads = block.threads();
  const auto* source = reinterpret_cast<const Word16*>(work.sources[0]);
  auto* target = reinterpret_cast<Word16*>(work.target);
  std::size_t i = block.thread();
  for (; i + (kWords - 1) * threads < words; i += kWords * threads) {
    Word16 held[kWords];
    WREATH_UNROLL
    for (unsigned word = 0; word < kWords; ++word) held[word] = source[i + word * threads];
    WREATH_UNROLL
    for (unsigned word = 0; word < kWords; ++word) target[i + word * threads] = held[word];
  }
  for (; i < words; i += threads) target[i] = source[i];
  for (i = words * sizeof(Word16) + block.thread(); i < work.units; i += threads) work.target[i] = work.sources[0][i];
}

// All pointers are aligned to elements of their form.
template <typename T, typename Block>
WREATH_HOST_DEVICE inline void block_combine(const Block& block, const Arithmetic& arithmetic, const BlockWork& work) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T));
  constexpr int kWidePack = 16 / static_cast<int>(sizeof(Accumulator<T>));  // of any number of sources
  constexpr int kInFlight = sizeof(T) == 1 ? 1 : 2;  // packs: more would not fit a thread's registers
  const bool aligned = aligned_to_16(work);
  const int pack = work.k <= 2 ? kPack : kWidePack;
  const std::size_t packs = aligned ? work.units / static_cast<std::size_t>(pack) : 0;
  switch (work.k) {
    case 1: combine_packs<T, kPack, 1, kInFlight>(block, arithmetic, work, 0, packs); break;
    case 2: combine_packs<T, kPack, 2, kInFlight>(block, arithmetic, work, 0, packs); break;
    default: combine_packs<T, kWidePack, 0, 1>(block, arithmetic, work, 0, packs); break;
  }
  combine_packs<T, 1, 0, 1>(block, arithmetic, work, packs * static_cast<std::size_t>(pack), work.units);
}

}  // namespace wreath
