// Moves bytes with all threads of a block, 16 bytes at a time where the pointers allow it. Several loads come before
// the first store, which hides the time of a load. Combinations (combine.hpp) are made of these functions, too. One
// source serves a GPU and the host, where a block is a group of threads. `Block` says which thread it is: thread(),
// threads().
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/kernels.hpp"
#include "src/base/memory_order.hpp"

#if defined(__CUDACC__)
namespace wreath {
using Word16 = uint4;
}
#else
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
  const std::byte* const* sources;  // one for Copy
  int k;
  Operands operands;
  std::size_t units;  // bytes for Copy, elements for Combine
};

// Accumulators of N neighbouring elements.
template <typename A, int N>
struct Pack {
  A value[unsigned{N}];
};

// The word in which so many bytes of memory are read and written.
template <int kBytes>
using AccessWord = std::conditional_t<
    kBytes % 16 == 0, Word16,
    std::conditional_t<kBytes % 8 == 0, std::uint64_t,
                       std::conditional_t<kBytes % 4 == 0, std::uint32_t,
                                          std::conditional_t<kBytes % 2 == 0, std::uint16_t, std::uint8_t>>>>;

// The words of four that so many bytes of memory fill, unshuffled: to look into them is to wait for the load.
template <int kBytes>
struct RawBytes {
  std::uint32_t words[unsigned{(kBytes + 3) / 4}];
};

// Loads the kBytes at `source` that have this index, into as many of the words.
template <int kBytes, int kRawBytes>
WREATH_HOST_DEVICE inline void load_bytes(const std::byte* source, std::size_t index, RawBytes<kRawBytes>& raw) {
  using Access = AccessWord<kBytes>;
  constexpr unsigned kAccesses = kBytes / sizeof(Access);
  WREATH_UNROLL
  for (unsigned i = 0; i < kAccesses; ++i) {
    const Access access = reinterpret_cast<const Access*>(source)[index * kAccesses + i];
    if constexpr (sizeof(access) < sizeof(std::uint32_t)) {
      raw.words[0] = access;
    } else {
      std::memcpy(raw.words + i * (sizeof(access) / sizeof(std::uint32_t)), &access, sizeof(access));
    }
  }
}

template <typename T, int N, int kRawBytes>
WREATH_HOST_DEVICE inline Pack<T, N> pack_of(const RawBytes<kRawBytes>& raw) {
  Pack<T, N> pack;
  std::memcpy(&pack, raw.words, sizeof(pack));
  return pack;
}

template <typename T, int N>
WREATH_HOST_DEVICE inline Pack<T, N> load(const std::byte* source, std::size_t index) {
  constexpr int kBytes = static_cast<int>(sizeof(T)) * N;
  RawBytes<kBytes> raw;
  load_bytes<kBytes>(source, index, raw);
  return pack_of<T, N>(raw);
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

WREATH_HOST_DEVICE inline bool aligned_to_16(const BlockWork& work) {
  std::uint64_t bits = reinterpret_cast<std::uint64_t>(work.target);
  for (int i = 0; i < work.k; ++i) bits |= reinterpret_cast<std::uint64_t>(work.sources[i]);
  return bits % 16 == 0;
}

// Copies the words `first`, first + stride, ... below `end`. It holds kBatch of them at once, then half as many, and so
// on.
template <unsigned kBatch, typename Word>
WREATH_HOST_DEVICE inline void copy_strided(Word* to, const Word* from, std::size_t first, std::size_t end,
                                            std::size_t stride) {
  for (; first + (kBatch - 1) * stride < end; first += kBatch * stride) {
    Word held[kBatch];
    WREATH_UNROLL
    for (unsigned word = 0; word < kBatch; ++word) held[word] = from[first + word * stride];
    WREATH_UNROLL
    for (unsigned word = 0; word < kBatch; ++word) to[first + word * stride] = held[word];
  }
  if constexpr (kBatch > 1) copy_strided<kBatch / 2>(to, from, first, end, stride);
}

// Copies Words. After the same number of bytes, both pointers are aligned to Words. Bytes before and behind whole Words
// are copied one by one.
template <typename Word, typename Block>
WREATH_HOST_DEVICE inline void copy_words(const Block& block, std::byte* target, const std::byte* source,
                                          std::size_t bytes) {
  constexpr unsigned kBatch = 8;  // words of each thread in flight
  const std::size_t threads = block.threads();
  const std::size_t before = (0 - reinterpret_cast<std::uint64_t>(target)) % sizeof(Word);
  const std::size_t head = before < bytes ? before : bytes;
  const std::size_t words = (bytes - head) / sizeof(Word);
  auto* to = reinterpret_cast<Word*>(target + head);
  const auto* from = reinterpret_cast<const Word*>(source + head);
  copy_strided<kBatch>(to, from, block.thread(), words, threads);
  const std::size_t copied = words * sizeof(Word);
  for (std::size_t i = block.thread(); i < bytes - copied; i += threads) {
    const std::size_t at = i < head ? i : i + copied;
    target[at] = source[at];
  }
}

// Copies in the largest words whose next boundary is as far from one pointer as from the other.
template <typename Block>
WREATH_NOINLINE WREATH_HOST_DEVICE void block_copy(Block block, const BlockWork& work) {
  std::byte* const target = work.target;
  const std::byte* const source = work.sources[0];
  const std::size_t bytes = work.units;
  const std::uint64_t apart = reinterpret_cast<std::uint64_t>(target) - reinterpret_cast<std::uint64_t>(source);
  if (apart % 16 == 0) return copy_words<Word16>(block, target, source, bytes);
  if (apart % 8 == 0) return copy_words<std::uint64_t>(block, target, source, bytes);
  if (apart % 4 == 0) return copy_words<std::uint32_t>(block, target, source, bytes);
  if (apart % 2 == 0) return copy_words<std::uint16_t>(block, target, source, bytes);
  copy_words<std::uint8_t>(block, target, source, bytes);
}

}  // namespace wreath
