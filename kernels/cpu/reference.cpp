// The meaning of the reductions, one element at a time in plain C++.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/kernels.hpp"

namespace wreath {
namespace {

template <typename T>
T load(const std::byte* source, std::size_t element) noexcept {
  T value;
  std::memcpy(&value, source + element * sizeof(T), sizeof(T));
  return value;
}

// The canonical sum of leaves [first, first + count), count a power of two; the first `paired` leaves are pairs.
template <typename T>
T tree(const std::byte* const* sources, std::size_t element, int paired, int first, int count) noexcept {
  if (count > 1) {
    const T left = tree<T>(sources, element, paired, first, count / 2);
    return left + tree<T>(sources, element, paired, first + count / 2, count / 2);
  }
  if (first >= paired) return load<T>(sources[first + paired], element);
  return load<T>(sources[2 * first], element) + load<T>(sources[2 * first + 1], element);
}

float canonical(float value) noexcept { return std::isnan(value) ? std::bit_cast<float>(0x7fc00000u) : value; }
std::uint32_t canonical(std::uint32_t value) noexcept { return value; }

template <typename T>
void reduce_each(std::byte* target, const std::byte* const* sources, int k, std::size_t elements) noexcept {
  const int leaves = static_cast<int>(std::bit_floor(static_cast<unsigned>(k)));
  for (std::size_t element = 0; element < elements; ++element) {
    const T value = canonical(tree<T>(sources, element, k - leaves, 0, leaves));
    std::memcpy(target + element * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

void reduce_reference(DataType dtype, ReduceOp /*op: Sum is the only one*/, std::byte* target,
                      const std::byte* const* sources, int k, std::size_t elements) noexcept {
  if (k == 1) {
    std::memmove(target, sources[0], elements * size_of(dtype));
    return;
  }
  switch (dtype) {
    case DataType::Float32: return reduce_each<float>(target, sources, k, elements);
    case DataType::Int32: return reduce_each<std::uint32_t>(target, sources, k, elements);
  }
}

}  // namespace wreath
