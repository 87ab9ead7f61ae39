// The arithmetic of one element, for host and device: every kernel computes this, whatever it computes it with.
//
// Elements are widened to the accumulator's type (wreath/narrow_floats.hpp), combined there and narrowed once.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "wreath/narrow_floats.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Unsigned arithmetic of at least 32 bits, in which integers of type T wrap.
template <typename T>
using WrappingWord = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <typename T>
WREATH_HOST_DEVICE constexpr T add(T a, T b) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<WrappingWord<T>>(a) + static_cast<WrappingWord<T>>(b));
  } else {
    return a + b;
  }
}

template <typename T>
WREATH_HOST_DEVICE constexpr T multiply(T a, T b) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<WrappingWord<T>>(a) * static_cast<WrappingWord<T>>(b));
  } else {
    return a * b;
  }
}

// Returns whether a float is negative, also for -0.
template <typename T>
WREATH_HOST_DEVICE constexpr bool has_sign(T value) noexcept {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  return std::bit_cast<Bits>(value) >> (8 * sizeof(T) - 1) != 0;
}

template <typename T>
WREATH_HOST_DEVICE constexpr T minimum(T a, T b) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return a;
    if (a == b) return has_sign(a) ? a : b;
  }
  return a < b ? a : b;  // b if it is NaN
}

template <typename T>
WREATH_HOST_DEVICE constexpr T maximum(T a, T b) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return a;
    if (a == b) return has_sign(a) ? b : a;
  }
  return a > b ? a : b;  // b if it is NaN
}

// Combines the two inputs of one node of the tree.
template <typename T>
WREATH_HOST_DEVICE constexpr T combine_pair(ReduceOp op, T a, T b) noexcept {
  switch (op) {
    case ReduceOp::Prod: return multiply(a, b);
    case ReduceOp::Min: return minimum(a, b);
    case ReduceOp::Max: return maximum(a, b);
    case ReduceOp::Sum:
    case ReduceOp::Avg:
    case ReduceOp::PremultipliedSum: break;
  }
  return add(a, b);
}

// Ends an average. Integers truncate toward zero, also where T cannot hold the value of `ranks`.
template <typename T>
WREATH_HOST_DEVICE constexpr T divide(T sum, int ranks) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    return sum / static_cast<T>(ranks);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(ranks));
  }
}

// Returns the factor of a premultiplied sum in the accumulator's type.
template <typename T>
WREATH_HOST_DEVICE constexpr T factor_in(const Reduction& reduction) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(reduction.factor);
  } else {
    return static_cast<T>(reduction.integer_factor);
  }
}

}  // namespace wreath
