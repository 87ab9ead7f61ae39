// These functions convert one element between a dtype and the type in which its sums are formed, for host and device.
//
// A NaN keeps any payload in a sum; canonical() and narrow() make it the one quiet NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "wreath/dtypes.hpp"
#include "wreath/host_device.hpp"

namespace wreath {

// Converts data to the accumulator's type, exactly.
template <typename T>
WREATH_HOST_DEVICE constexpr Accumulator<T> widen(T value) noexcept {
  if constexpr (NarrowFormat<T>::kExists) {
    using Format = NarrowFormat<T>;
    const std::uint32_t magnitude = value.bits & Format::kMagnitude;
    const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & ~Format::kMagnitude) << Format::kSignShift;
    std::uint32_t bits = magnitude << Format::kShift;
    if (magnitude >= Format::kFirstNonFinite) {
      bits |= 0x7f800000u;
    } else if (Format::kSameExponent || magnitude >= Format::kFirstNormal) {
      bits += Format::kRebias;
    } else {
      // The value has no implicit bit. So the bit of the least normal number is added, and subtracted as a float.
      const float least = std::bit_cast<float>(Format::kLeastNormal);
      bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + Format::kLeastNormal) - least);
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

// Converts the accumulator's type to data. It rounds once, to nearest even; any NaN becomes the one quiet NaN.
template <typename T>
WREATH_HOST_DEVICE constexpr T narrow(Accumulator<T> value) noexcept {
  if constexpr (NarrowFormat<T>::kExists) {
    using Format = NarrowFormat<T>;
    using Bits = typename Format::Bits;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u || (magnitude == 0x7f800000u && Format::kFromInfinity == Format::kNan)) {
      return T{static_cast<Bits>(Format::kNan)};
    }
    const std::uint32_t sign = (bits ^ magnitude) >> Format::kSignShift;
    if (magnitude == 0x7f800000u) return T{static_cast<Bits>(Format::kFromInfinity | sign)};
    if (magnitude > Format::kLargestFloat) magnitude = Format::kLargestFloat;
    if (!Format::kSameExponent && magnitude < Format::kLeastNormal) {
      const float magic = std::bit_cast<float>(Format::kSubnormalMagic);
      magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + magic) - Format::kSubnormalMagic;
    } else {
      const std::uint32_t odd = magnitude >> Format::kShift & 1u;
      magnitude += (1u << (Format::kShift - 1)) - 1 + odd - Format::kRebias;
      magnitude >>= Format::kShift;
    }
    return T{static_cast<Bits>(magnitude | sign)};
  } else {
    return canonical(value);
  }
}

}  // namespace wreath
