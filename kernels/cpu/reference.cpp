// Defines the meaning of the reductions, one element at a time in plain C++.
#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/arithmetic.hpp"
#include "kernels/kernels.hpp"

namespace wreath {
namespace {

template <typename T>
T load(const std::byte* source, std::size_t element) noexcept {
  T value;
  std::memcpy(&value, source + element * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* target, std::size_t element, T value) noexcept {
  std::memcpy(target + element * sizeof(T), &value, sizeof(T));
}

// The sources of one call, which are read as accumulators.
template <typename T>
struct Leaves {
  const Arithmetic& arithmetic;
  const std::byte* const* sources;
  int k;
  Operands operands;

  Accumulator<T> read(int source, std::size_t element) const noexcept {
    using Sum = Accumulator<T>;
    const Form form = source == operands.own ? operands.own_form : operands.messages;
    if (form == Form::Partial) return load<Sum>(sources[source], element);
    const Sum value = widen(load<T>(sources[source], element));
    const bool premultiplies = arithmetic.reduction.op == ReduceOp::PremultipliedSum;
    return premultiplies ? multiply(value, factor_in<Sum>(arithmetic.reduction)) : value;
  }

  // Combines the canonical tree of the leaves [first, first + count). `count` is a power of two. The first `paired`
  // leaves are pairs.
  Accumulator<T> tree(std::size_t element, int paired, int first, int count) const noexcept {
    const ReduceOp op = arithmetic.reduction.op;
    if (count > 1) {
      const auto left = tree(element, paired, first, count / 2);
      return combine_pair(op, left, tree(element, paired, first + count / 2, count / 2));
    }
    if (first >= paired) return read(first + paired, element);
    return combine_pair(op, read(2 * first, element), read(2 * first + 1, element));
  }
};

template <typename T>
void combine_each(const Leaves<T>& from, std::byte* target, Form target_form, std::size_t elements) noexcept {
  const int leaves = static_cast<int>(std::bit_floor(static_cast<unsigned>(from.k)));
  const bool divides = from.arithmetic.reduction.op == ReduceOp::Avg;
  for (std::size_t element = 0; element < elements; ++element) {
    const auto result = from.tree(element, from.k - leaves, 0, leaves);
    if (target_form == Form::Partial) {
      store(target, element, canonical(result));
    } else {
      store(target, element, narrow<T>(divides ? divide(result, from.arithmetic.ranks) : result));
    }
  }
}

}  // namespace

void combine_reference(const Arithmetic& arithmetic, std::byte* target, Form target_form,
                       const std::byte* const* sources, int k, Operands operands, std::size_t elements) noexcept {
  const Form first_form = operands.own == 0 ? operands.own_form : operands.messages;
  if (k == 1 && arithmetic.moves(first_form, target_form)) {
    const DataType dtype = target_form == Form::Data ? arithmetic.dtype : accumulator_of(arithmetic.dtype);
    std::memmove(target, sources[0], elements * size_of(dtype));
    return;
  }
  for_dtype(arithmetic.dtype, [&]<typename T>(T) {
    combine_each<T>({arithmetic, sources, k, operands}, target, target_form, elements);
  });
}

}  // namespace wreath
