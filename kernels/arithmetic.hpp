// The arithmetic of one element, for host and device. Every kernel computes it, by whatever means.
//
// Elements are widened to the accumulator's type (float for the narrower floats, else the type itself), combined there
// and narrowed once. A NaN keeps any payload on the way. `canonical` and `narrow` make it the one quiet NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "src/base/memory_order.hpp"
#include "wreath/types.hpp"

namespace wreath {

// A floating format of less than 32 bits, with sign, exponent and mantissa.
template <typename T>
struct NarrowFormat {
  static constexpr bool kExists = false;
};

// The values that follow from the widths of an IEEE 754 format. Its largest exponent belongs to infinity and NaN.
template <typename Word, int mantissa_bits>
struct InterchangeFormat {
  static constexpr bool kExists = true;
  using Bits = Word;
  static constexpr int kMantissaBits = mantissa_bits;
  static constexpr int kExponentBits = 8 * static_cast<int>(sizeof(Word)) - 1 - mantissa_bits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint32_t kFromInfinity = ((1u << kExponentBits) - 1) << mantissa_bits;
  // The least magnitude that is not a finite number.
  static constexpr std::uint32_t kFirstNonFinite = kFromInfinity;
  static constexpr std::uint32_t kNan = kFromInfinity | 1u << (mantissa_bits - 1);
};

// Larger finite floats narrow like kLargestFloat.
template <>
struct NarrowFormat<Float16> : InterchangeFormat<std::uint16_t, 10> {
  static constexpr std::uint32_t kLargestFloat = 0x47800000;  // 2^16, the place of infinity
};
template <>
struct NarrowFormat<BFloat16> : InterchangeFormat<std::uint16_t, 7> {
  static constexpr std::uint32_t kLargestFloat = 0x7f7fffff;  // the largest float
};
// This format has no infinity, and one NaN.
template <>
struct NarrowFormat<Float8E4M3> : InterchangeFormat<std::uint8_t, 3> {
  static constexpr std::uint32_t kFirstNonFinite = 0x7f;
  static constexpr std::uint32_t kFromInfinity = 0x7f;
  static constexpr std::uint32_t kNan = 0x7f;
  static constexpr std::uint32_t kLargestFloat = 0x43e00000;  // 448
};
template <>
struct NarrowFormat<Float8E5M2> : InterchangeFormat<std::uint8_t, 2> {
  static constexpr std::uint32_t kLargestFloat = 0x47600000;  // 57344
};

// The words of a conversion between a narrow format and float, for scalars and vectors alike.
template <typename T>
struct NarrowConversion {
  using Format = NarrowFormat<T>;
  static constexpr int kShift = 23 - Format::kMantissaBits;
  static constexpr int kSignShift = 32 - 8 * static_cast<int>(sizeof(typename Format::Bits));
  static constexpr std::uint32_t kMagnitude = (1u << (31 - kSignShift)) - 1;
  // The difference between a shifted exponent and a float's exponent.
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - Format::kBias) << 23;
  static constexpr bool kSameExponent = Format::kBias == 127;
  static constexpr std::uint32_t kFirstNormal = 1u << Format::kMantissaBits;
  static constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - Format::kBias) << 23;
  // A float whose last bit weighs as much as the format's least subnormal. Adding it rounds to a multiple of that.
  static constexpr std::uint32_t kSubnormalMagic = static_cast<std::uint32_t>(128 - Format::kBias + kShift) << 23;
};

template <typename T>
using Accumulator = std::conditional_t<NarrowFormat<T>::kExists, float, T>;

// Widens Data to the accumulator. The result is exact.
template <typename T>
WREATH_HOST_DEVICE constexpr Accumulator<T> widen(T value) noexcept {
  if constexpr (NarrowFormat<T>::kExists) {
    using Conversion = NarrowConversion<T>;
    const std::uint32_t magnitude = value.bits & Conversion::kMagnitude;
    const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & ~Conversion::kMagnitude)
                               << Conversion::kSignShift;
    std::uint32_t bits = magnitude << Conversion::kShift;
    if (magnitude >= NarrowFormat<T>::kFirstNonFinite) {
      bits |= 0x7f800000u;
    } else if (Conversion::kSameExponent || magnitude >= Conversion::kFirstNormal) {
      bits += Conversion::kRebias;
    } else {
      // A subnormal has no implicit bit. The least normal number is added with its implicit bit, and then subtracted.
      const float least = std::bit_cast<float>(Conversion::kLeastNormal);
      bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + Conversion::kLeastNormal) - least);
    }
    return std::bit_cast<float>(bits | sign);
  } else {
    return value;
  }
}

// Returns the one quiet NaN for any NaN, and every other value unchanged.
template <typename T>
WREATH_HOST_DEVICE constexpr T canonical(T value) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return value != value ? std::bit_cast<float>(0x7fc00000u) : value;
  } else if constexpr (std::is_same_v<T, double>) {
    return value != value ? std::bit_cast<double>(std::uint64_t{0x7ff8000000000000u}) : value;
  } else {
    return value;
  }
}

// Narrows the accumulator to Data. It rounds once, to nearest even, and any NaN becomes the one quiet NaN.
template <typename T>
WREATH_HOST_DEVICE constexpr T narrow(Accumulator<T> value) noexcept {
  if constexpr (NarrowFormat<T>::kExists) {
    using Format = NarrowFormat<T>;
    using Conversion = NarrowConversion<T>;
    using Bits = typename Format::Bits;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u || (magnitude == 0x7f800000u && Format::kFromInfinity == Format::kNan)) {
      return T{static_cast<Bits>(Format::kNan)};
    }
    const std::uint32_t sign = (bits ^ magnitude) >> Conversion::kSignShift;
    if (magnitude == 0x7f800000u) return T{static_cast<Bits>(Format::kFromInfinity | sign)};
    if (magnitude > Format::kLargestFloat) magnitude = Format::kLargestFloat;
    if (!Conversion::kSameExponent && magnitude < Conversion::kLeastNormal) {
      const float magic = std::bit_cast<float>(Conversion::kSubnormalMagic);
      magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + magic) - Conversion::kSubnormalMagic;
    } else {
      const std::uint32_t odd = magnitude >> Conversion::kShift & 1u;
      magnitude += (1u << (Conversion::kShift - 1)) - 1 + odd - Conversion::kRebias;
      magnitude >>= Conversion::kShift;
    }
    return T{static_cast<Bits>(magnitude | sign)};
  } else {
    return canonical(value);
  }
}

// The unsigned arithmetic, of at least 32 bits, in which integers of type T wrap.
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
