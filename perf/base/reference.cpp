// Computes reductions by the kernels' scalar reference.
#include "perf/base/reference.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/kernels.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kBlockElements = 512;

template <typename T>
void write_all(std::span<const double> values, std::byte* target) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T element;
    if constexpr (std::is_floating_point_v<T>) {
      element = static_cast<T>(values[i]);
    } else {
      element = static_cast<T>(static_cast<std::int64_t>(values[i]));
    }
    std::memcpy(target + i * sizeof(T), &element, sizeof(T));
  }
}

// Writes floats of less than 32 bits, which the reference rounds.
void round_all(DataType dtype, std::span<const double> values, std::byte* target) {
  std::vector<float> wide(values.begin(), values.end());
  const auto* source = reinterpret_cast<const std::byte*>(wide.data());
  combine_reference(arithmetic(dtype, ReduceOp::Sum, 1), target, Form::Data, &source, 1,
                    {Form::Partial, -1, Form::Data}, wide.size());
}

}  // namespace

Reduction reduction_of(ReduceOp op, Rank rank) {
  if (op != ReduceOp::PremultipliedSum) return op;
  return Reduction::premultiplied_sum(static_cast<std::int64_t>(1 + (rank + 1) % kLargestFactor));
}

void reduce_ranks(DataType dtype, ReduceOp op, std::span<const std::byte* const> inputs, std::byte* output,
                  std::size_t elements) {
  const int ranks = static_cast<int>(inputs.size());
  const std::size_t bytes = size_of(dtype);
  const std::size_t partial_bytes = size_of(accumulator_of(dtype));
  std::vector<std::byte> partials(inputs.size() * kBlockElements * partial_bytes);
  std::vector<const std::byte*> sources;
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    sources.push_back(partials.data() + rank * kBlockElements * partial_bytes);
  }
  const Arithmetic all = arithmetic(dtype, reduction_of(op, 0), ranks);
  for (std::size_t first = 0; first < elements; first += kBlockElements) {
    const std::size_t count = std::min(kBlockElements, elements - first);
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {  // each with its own factor
      const Arithmetic own = arithmetic(dtype, reduction_of(op, static_cast<Rank>(rank)), ranks);
      const std::byte* source = inputs[rank] + first * bytes;
      combine_reference(own, const_cast<std::byte*>(sources[rank]), Form::Partial, &source, 1,
                        {Form::Data, 0, Form::Data}, count);
    }
    combine_reference(all, output + first * bytes, Form::Data, sources.data(), ranks, {Form::Partial, -1, Form::Data},
                      count);
  }
}

void encode(DataType dtype, std::span<const double> values, std::byte* target) {
  for_dtype(dtype, [&]<typename T>(T) {
    if constexpr (NarrowFormat<T>::kExists) {
      round_all(dtype, values, target);
    } else {
      write_all<T>(values, target);
    }
  });
}

}  // namespace wreath::perf
