// Conversions of single values to and from the narrower formats, with the bits of training/compute/convert.hpp.
#pragma once

#include <bit>
#include <cstdint>

#include "training/compute/kernels/formats.hpp"
#include "wreath/host_device.hpp"

namespace wreath::training {

WREATH_HOST_DEVICE inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
WREATH_HOST_DEVICE inline float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;

template <typename F>
WREATH_HOST_DEVICE inline std::uint32_t narrowed(float value) {
  const std::uint32_t magnitude = bits_of(value) & 0x7fffffffu;
  const std::uint32_t sign = (bits_of(value) ^ magnitude) >> F::kSignShift;
  const bool has_infinity = F::kInfinity != F::kNan;
  if (magnitude > (has_infinity ? kInfinityBits : kInfinityBits - 1)) return F::kNan;
  if (magnitude == kInfinityBits) return F::kInfinity | sign;
  const std::uint32_t bounded = magnitude < F::kLargestFloat ? magnitude : F::kLargestFloat;
  if (!F::kSameExponent && bounded < F::kLeastNormal) {
    return (bits_of(float_of(bounded) + float_of(F::kSubnormalMagic)) - F::kSubnormalMagic) | sign;
  }
  constexpr std::uint32_t kHalf = (1u << (F::kShift - 1)) - 1;
  const std::uint32_t odd = (bounded >> F::kShift) & 1u;
  return ((bounded + odd + kHalf - F::kRebias) >> F::kShift) | sign;
}

template <typename F>
WREATH_HOST_DEVICE inline float widened(std::uint32_t word) {
  if (F::kSameExponent) return float_of(word << F::kShift);
  const std::uint32_t magnitude = word & F::kMagnitude;
  const std::uint32_t sign = (word ^ magnitude) << F::kSignShift;
  const std::uint32_t shifted = magnitude << F::kShift;
  if (magnitude >= F::kFirstNonFinite) return float_of(shifted | kInfinityBits | sign);
  if (magnitude >= F::kFirstNormal) return float_of((shifted + F::kRebias) | sign);
  // The implicit bit is not there: added as that of the least normal number, and subtracted.
  return float_of(bits_of(float_of(shifted + F::kLeastNormal) - float_of(F::kLeastNormal)) | sign);
}

// body(FORMAT{}).
template <typename Body>
WREATH_HOST_DEVICE inline float with_format(FloatFormat format, const Body& body) {
  switch (format) {
    case FloatFormat::BFloat16: return body(BFloat16Format{});
    case FloatFormat::Float16: return body(Float16Format{});
    case FloatFormat::Float8E4M3: return body(Float8E4M3Format{});
    case FloatFormat::Float8E5M2: break;
  }
  return body(Float8E5M2Format{});
}

}  // namespace wreath::training
