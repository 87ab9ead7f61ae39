// Combines elements with all threads of a block, by the rules of kernels.hpp. All that a thread reads for one or two
// results is on its way before the thread looks at any of it. A look would wait for the load.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/arithmetic.hpp"
#include "kernels/block/canonical_tree.hpp"
#include "kernels/block/primitives.hpp"
#include "kernels/kernels.hpp"

namespace wreath {

// The sources of a piece of work, in packs of N elements. The work is copied. A store may be to any memory, so fields
// in memory would be read again after each store.
template <typename T, int N>
class PackSources {
 public:
  using A = Accumulator<T>;
  using Raw = RawBytes<static_cast<int>(sizeof(A)) * N>;  // of either form

  WREATH_HOST_DEVICE PackSources(const Arithmetic& arithmetic, const BlockWork& work)
      : arithmetic_(arithmetic), operands_(work.operands) {}

  WREATH_HOST_DEVICE Raw read(int source, const std::byte* data, std::size_t index) const {
    Raw raw{};
    if (std::is_same_v<T, A> || is_partial(source)) {
      load_bytes<static_cast<int>(sizeof(A)) * N>(data, index, raw);
    } else {
      load_bytes<static_cast<int>(sizeof(T)) * N>(data, index, raw);
    }
    return raw;
  }
  WREATH_HOST_DEVICE Pack<A, N> wide(int source, const Raw& raw) const {
    if (is_partial(source)) return pack_of<A, N>(raw);
    return widen_input(arithmetic_, pack_of<T, N>(raw));
  }

 private:
  WREATH_HOST_DEVICE bool is_partial(int source) const {
    return (source == operands_.own ? operands_.own_form : operands_.messages) == Form::Partial;
  }

  Arithmetic arithmetic_;
  Operands operands_;
};

// The results of a piece of work, in packs of N elements.
template <typename T, int N>
class PackResults {
 public:
  WREATH_HOST_DEVICE PackResults(const Arithmetic& arithmetic, const BlockWork& work)
      : arithmetic_(arithmetic), target_(work.target), form_(work.target_form) {}
  WREATH_HOST_DEVICE void put(std::size_t index, const Pack<Accumulator<T>, N>& result) const {
    if (form_ == Form::Partial) return store(target_, index, canonical_pack(result));
    store(target_, index, finish_sum<T>(arithmetic_, result));
  }

 private:
  Arithmetic arithmetic_;
  std::byte* target_;
  Form form_;
};

// Combines K sources: one or two.
template <typename T, int N, int K>
class FewCombiner {
 public:
  WREATH_HOST_DEVICE FewCombiner(const Arithmetic& arithmetic, const BlockWork& work)
      : sources_(arithmetic, work), results_(arithmetic, work), op_(arithmetic.reduction.op) {
    WREATH_UNROLL
    for (int source = 0; source < K; ++source) data_[source] = work.sources[source];
  }

  // Combines the packs first, first + stride, ...: kPacks of them, which are all read before the first is written.
  template <int kPacks>
  WREATH_HOST_DEVICE void run(std::size_t first, std::size_t stride) const {
    typename PackSources<T, N>::Raw raw[unsigned{kPacks}][unsigned{K}];
    WREATH_UNROLL
    for (unsigned i = 0; i < kPacks; ++i) {
      WREATH_UNROLL
      for (int source = 0; source < K; ++source) {
        raw[i][source] = sources_.read(source, data_[source], first + i * stride);
      }
    }
    WREATH_UNROLL
    for (unsigned i = 0; i < kPacks; ++i) {
      Pack<Accumulator<T>, N> result = sources_.wide(0, raw[i][0]);
      if constexpr (K == 2) result = merge(op_, result, sources_.wide(1, raw[i][1]));
      results_.put(first + i * stride, result);
    }
  }

 private:
  PackSources<T, N> sources_;
  PackResults<T, N> results_;
  ReduceOp op_;
  const std::byte* data_[unsigned{K}];
};

// Combines any number of sources.
template <typename T, int N>
class ManyCombiner {
 public:
  WREATH_HOST_DEVICE ManyCombiner(const Arithmetic& arithmetic, const BlockWork& work)
      : sources_(arithmetic, work),
        results_(arithmetic, work),
        op_(arithmetic.reduction.op),
        k_(work.k),
        data_(work.sources) {}

  template <int kPacks>
  WREATH_HOST_DEVICE void run(std::size_t first, std::size_t /*stride*/) const {
    static_assert(kPacks == 1);
    SourcesAt at{*this, first};
    results_.put(first, CanonicalTree<Pack<Accumulator<T>, N>, kLeaves, SourcesAt>(op_, k_, at).result());
  }

 private:
  static constexpr int kLeaves = 4;

  struct SourcesAt {
    using Raw = typename PackSources<T, N>::Raw;
    WREATH_HOST_DEVICE Raw read(int source) const { return all.sources_.read(source, all.data_[source], index); }
    WREATH_HOST_DEVICE Pack<Accumulator<T>, N> wide(int source, const Raw& raw) const {
      return all.sources_.wide(source, raw);
    }
    const ManyCombiner& all;
    std::size_t index;
  };

  PackSources<T, N> sources_;
  PackResults<T, N> results_;
  ReduceOp op_;
  int k_;
  const std::byte* const* data_;
};

// Combines the packs [first, end). Each thread handles kPacks of them at once.
template <int kPacks, typename Combiner, typename Block>
WREATH_HOST_DEVICE inline void combine_packs(const Block& block, const Combiner& combiner, std::size_t first,
                                             std::size_t end) {
  const std::size_t threads = block.threads();
  std::size_t i = first + block.thread();
  if constexpr (kPacks > 1) {
    for (; i + (kPacks - 1) * threads < end; i += kPacks * threads) combiner.template run<kPacks>(i, threads);
  }
  for (; i < end; i += threads) combiner.template run<1>(i, threads);
}

// Combines one piece of work. All pointers are aligned to elements of their form.
template <typename T, typename Block>
WREATH_HOST_DEVICE inline void block_combine(const Block& block, const Arithmetic& arithmetic, const BlockWork& work) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T));
  constexpr int kWidePack = sizeof(T) == 8 ? 2 : 4;  // for any number of sources
  // More packs would not fit a thread's registers.
  constexpr int kPacks = sizeof(T) == 1 ? 1 : 2;
  const bool aligned = aligned_to_16(work);
  const int pack = work.k <= 2 ? kPack : kWidePack;
  const std::size_t packs = aligned ? work.units / static_cast<std::size_t>(pack) : 0;
  switch (work.k) {
    case 1: combine_packs<kPacks>(block, FewCombiner<T, kPack, 1>(arithmetic, work), 0, packs); break;
    case 2: combine_packs<kPacks>(block, FewCombiner<T, kPack, 2>(arithmetic, work), 0, packs); break;
    default: combine_packs<1>(block, ManyCombiner<T, kWidePack>(arithmetic, work), 0, packs); break;
  }
  combine_packs<1>(block, ManyCombiner<T, 1>(arithmetic, work), packs * static_cast<std::size_t>(pack), work.units);
}

}  // namespace wreath
