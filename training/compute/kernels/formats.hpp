// The narrow floating formats and their widths.
#pragma once

#include <cstdint>

namespace wreath::training {

enum class FloatFormat : std::uint8_t { BFloat16, Float16, Float8E4M3, Float8E5M2 };

// With the bits of a float32 as the measure. Exponents are as IEEE 754 has them; the largest one is infinity's and
// NaN's, but e4m3's.
template <typename WordType, int kMantissa>
struct FormatWidths {
  using Word = WordType;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr int kSignShift = 32 - 8 * static_cast<int>(sizeof(Word));
  static constexpr int kExponentBits = 8 * static_cast<int>(sizeof(Word)) - 1 - kMantissa;
  static constexpr std::uint32_t kMagnitude = (1u << (31 - kSignShift)) - 1;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr bool kSameExponent = kBias == 127;
  // What a shifted exponent lacks to be a float's.
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr std::uint32_t kFirstNormal = 1u << kMantissa;
  static constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  // A float whose last bit weighs as much as the format's least subnormal: adding it rounds to a multiple of that.
  static constexpr std::uint32_t kSubnormalMagic = static_cast<std::uint32_t>(128 - kBias + kShift) << 23;
  static constexpr std::uint32_t kInfinity = ((1u << kExponentBits) - 1) << kMantissa;
  static constexpr std::uint32_t kFirstNonFinite = kInfinity;
  static constexpr std::uint32_t kNan = kInfinity | 1u << (kMantissa - 1);
};

// kLargestFloat: larger finite floats narrow as this one.
struct BFloat16Format : FormatWidths<std::uint16_t, 7> {
  static constexpr std::uint32_t kLargestFloat = 0x7f7fffff;
};
struct Float16Format : FormatWidths<std::uint16_t, 10> {
  static constexpr std::uint32_t kLargestFloat = 0x47800000;  // 2^16, which is infinity's place
};
struct Float8E4M3Format : FormatWidths<std::uint8_t, 3> {  // no infinity, and one NaN
  static constexpr std::uint32_t kInfinity = 0x7f;
  static constexpr std::uint32_t kFirstNonFinite = 0x7f;
  static constexpr std::uint32_t kNan = 0x7f;
  static constexpr std::uint32_t kLargestFloat = 0x43e00000;  // 448
};
struct Float8E5M2Format : FormatWidths<std::uint8_t, 2> {
  static constexpr std::uint32_t kLargestFloat = 0x47600000;  // 57344
};

}  // namespace wreath::training
