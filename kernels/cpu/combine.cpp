// Combines any number of sources in any forms, by the kernels of one instruction set (reduce.cpp). Work that one kernel
// does as a whole goes there at once. The rest goes block by block, through rows that stay in L1.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/cpu/target_kernels.hpp"

namespace wreath {
namespace {

constexpr std::size_t kRowBytes = 2048;
constexpr int kGroup = 8;  // the most leaves that become one row
// The most rows that wait to be merged: fewer than the binary digits of k / kGroup.
constexpr int kMaxDepth = 28;

struct alignas(64) Row {
  std::byte bytes[kRowBytes];
};

struct Sources {
  const Arithmetic& arithmetic;
  const TargetKernels& kernels;
  const std::byte* const* pointers;
  int k;
  Operands operands;

  Form form(int source) const { return source == operands.own ? operands.own_form : operands.messages; }
  bool have(Form wanted) const {
    const bool own = operands.own >= 0;
    return (own && operands.own_form == wanted) || ((!own || k > 1) && operands.messages == wanted);
  }
  std::size_t data_bytes() const { return size_of(arithmetic.dtype); }
  std::size_t partial_bytes() const { return size_of(accumulator_of(arithmetic.dtype)); }

  // Returns a source's elements from `first` on as accumulators, either in place or in `room`.
  const std::byte* entered(int source, std::size_t first, std::size_t elements, Row& room) const {
    if (form(source) == Form::Partial) return pointers[source] + first * partial_bytes();
    const std::byte* data = pointers[source] + first * data_bytes();
    if (kernels.enter == nullptr) return data;
    kernels.enter(arithmetic, room.bytes, data, elements);
    return room.bytes;
  }
};

// Combines the elements [first, first + elements) of two sources or more into `result`, as accumulators. Groups of
// leaves become rows, and rows merge like the digits of a binary counter. The result is written last.
void combine_block(const Sources& from, std::size_t first, std::size_t elements, std::byte* result) {
  Row leaf_rows[kGroup];
  Row pair_rows[2];
  Row sums[kMaxDepth];
  const int leaves = static_cast<int>(std::bit_floor(static_cast<unsigned>(from.k)));
  const int paired = from.k - leaves;
  const int group = std::min(leaves, from.kernels.largest_k);
  int depth = 0;
  for (int begin = 0; begin < leaves; begin += group) {
    const std::byte* group_leaves[kGroup];
    for (int i = 0; i < group; ++i) {
      const int leaf = begin + i;
      if (leaf < paired) {
        const std::byte* pair[] = {from.entered(2 * leaf, first, elements, pair_rows[0]),
                                   from.entered(2 * leaf + 1, first, elements, pair_rows[1])};
        from.kernels.partial(from.arithmetic, leaf_rows[i].bytes, pair, 2, elements);
        group_leaves[i] = leaf_rows[i].bytes;
      } else {
        group_leaves[i] = from.entered(leaf + paired, first, elements, leaf_rows[i]);
      }
    }
    from.kernels.partial(from.arithmetic, leaves == group ? result : sums[depth].bytes, group_leaves, group, elements);
    ++depth;
    const bool last = begin + group == leaves;
    for (int done = begin / group + 1; done % 2 == 0; done /= 2) {
      const std::byte* pair[] = {sums[depth - 2].bytes, sums[depth - 1].bytes};
      --depth;
      from.kernels.partial(from.arithmetic, last && depth == 1 ? result : sums[depth - 1].bytes, pair, 2, elements);
    }
  }
}

// Combines in blocks of one row each: it enters, combines and finishes them.
void combine_blocks(const Sources& from, std::byte* target, bool finishes, std::size_t elements) {
  Row entered;
  Row sum;
  const std::size_t target_bytes = finishes ? from.data_bytes() : from.partial_bytes();
  const std::size_t block = kRowBytes / from.partial_bytes();
  for (std::size_t first = 0; first < elements; first += block) {
    const std::size_t count = std::min(block, elements - first);
    std::byte* out = target + first * target_bytes;
    const std::byte* result = finishes ? sum.bytes : out;
    if (from.k > 1) {
      combine_block(from, first, count, finishes ? sum.bytes : out);
    } else if (finishes) {
      result = from.entered(0, first, count, entered);
    } else {
      from.kernels.enter(from.arithmetic, out, from.pointers[0] + first * from.data_bytes(), count);
    }
    if (finishes) from.kernels.finish(from.arithmetic, out, result, count);
  }
}

void combine_by(const Sources& from, std::byte* target, Form target_form, std::size_t elements) {
  const TargetKernels& kernels = from.kernels;
  const bool finishes = target_form == Form::Data && kernels.finish != nullptr;
  const bool enters = kernels.enter != nullptr && from.have(Form::Data);
  if (from.k == 1 && from.arithmetic.moves(from.form(0), target_form)) {
    const std::size_t bytes = target_form == Form::Data ? from.data_bytes() : from.partial_bytes();
    std::memmove(target, from.pointers[0], elements * bytes);
    return;
  }
  const bool power = std::has_single_bit(static_cast<unsigned>(from.k));
  const bool one_tree = from.k > 1 && from.k <= kernels.largest_k && (kernels.every_k || power);
  if (one_tree && !enters && !finishes)
    return kernels.partial(from.arithmetic, target, from.pointers, from.k, elements);
  // Where nothing enters, partials are data that are not finished.
  const bool all_data = kernels.enter == nullptr || !from.have(Form::Partial);
  if (one_tree && power && kernels.data != nullptr && target_form == Form::Data && all_data) {
    return kernels.data(from.arithmetic, target, from.pointers, from.k, elements);
  }
  combine_blocks(from, target, finishes, elements);
}

const TargetKernels& kernels_for(const Target& target, DataType dtype, ReduceOp op) {
  return (*target.kernels)[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
}

template <std::size_t kTarget>
void combine(const Arithmetic& arithmetic, std::byte* target, Form target_form, const std::byte* const* sources, int k,
             Operands operands, std::size_t elements) {
  const TargetKernels& kernels = kernels_for(kTargetTable[kTarget], arithmetic.dtype, arithmetic.reduction.op);
  combine_by({arithmetic, kernels, sources, k, operands}, target, target_form, elements);
}

template <std::size_t... kTarget>
constexpr std::array<Arithmetic::Combine, kTargets> combines(std::index_sequence<kTarget...>) {
  return {combine<kTarget>...};
}
constexpr std::array<Arithmetic::Combine, kTargets> kCombines = combines(std::make_index_sequence<kTargets>());

}  // namespace

std::size_t combine_targets(CombineTarget* targets, std::size_t capacity) noexcept {
  std::size_t found = 0;
  for (std::size_t i = 0; i < kTargets && found < capacity; ++i) {
    if (runs_here(kTargetTable[i])) targets[found++] = {name_of(kTargetTable[i]), kCombines[i]};
  }
  return found;
}

Arithmetic arithmetic(DataType dtype, const Reduction& reduction, int ranks) noexcept {
  static const Arithmetic::Combine best = [] {
    CombineTarget target{};
    combine_targets(&target, 1);
    return target.combine;
  }();
  return {best, dtype, reduction, ranks};
}

}  // namespace wreath
