// Conversions of arrays, compiled once per instruction set (Highway).
#include "training/compute/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

#include "training/compute/compute.hpp"
#include "training/compute/kernels/formats.hpp"
#include "training/compute/kernels/kernels.hpp"
#include "training/compute/targets.hpp"
#include "wreath/result.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/compute/convert.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath::training {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t kFloatInfinity = 0x7f800000u;

// Words of the format, each in 32 bits. All magnitudes are below 2^31, so they compare as signed integers do.
template <class F, class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> narrowed(D d, hn::Vec<D> value) {
  const hn::RebindToSigned<D> s;
  const auto set = [&](std::uint32_t bits) { return hn::Set(s, std::bit_cast<std::int32_t>(bits)); };
  const hn::RebindToUnsigned<D> u;
  const auto magnitude = hn::BitCast(s, hn::Abs(value));
  const auto sign =
      hn::BitCast(s, hn::ShiftRight<F::kSignShift>(hn::BitCast(u, hn::Xor(hn::BitCast(s, value), magnitude))));
  const auto bounded = hn::Min(magnitude, set(F::kLargestFloat));
  const auto odd = hn::And(hn::ShiftRight<F::kShift>(bounded), set(1));
  constexpr std::uint32_t kHalf = (1u << (F::kShift - 1)) - 1;
  auto finite = hn::ShiftRight<F::kShift>(hn::Add(bounded, hn::Add(odd, set(kHalf - F::kRebias))));
  if constexpr (!F::kSameExponent) {
    const auto magic = set(F::kSubnormalMagic);
    const auto rounded = hn::BitCast(s, hn::Add(hn::BitCast(d, bounded), hn::BitCast(d, magic)));
    finite = hn::IfThenElse(hn::Lt(bounded, set(F::kLeastNormal)), hn::Sub(rounded, magic), finite);
  }
  const auto number = hn::IfThenElse(hn::Lt(magnitude, set(kFloatInfinity)), finite, set(F::kInfinity));
  const bool has_infinity = F::kInfinity != F::kNan;
  const auto not_a_number = hn::Gt(magnitude, set(has_infinity ? kFloatInfinity : kFloatInfinity - 1));
  return hn::IfThenElse(not_a_number, set(F::kNan), hn::Or(number, sign));
}

template <class F, class D>
HWY_INLINE hn::Vec<D> widened(D d, hn::Vec<hn::RebindToSigned<D>> word) {
  const hn::RebindToSigned<D> s;
  const auto set = [&](std::uint32_t bits) { return hn::Set(s, std::bit_cast<std::int32_t>(bits)); };
  if constexpr (F::kSameExponent) {
    return hn::BitCast(d, hn::ShiftLeft<F::kShift>(word));
  } else {
    const auto magnitude = hn::And(word, set(F::kMagnitude));
    const auto sign = hn::ShiftLeft<F::kSignShift>(hn::Xor(word, magnitude));
    const auto shifted = hn::ShiftLeft<F::kShift>(magnitude);
    const auto least = set(F::kLeastNormal);
    // Of a subnormal the implicit bit is not there: added as that of the least normal number, and subtracted.
    const auto subnormal = hn::BitCast(s, hn::Sub(hn::BitCast(d, hn::Add(shifted, least)), hn::BitCast(d, least)));
    auto bits = hn::IfThenElse(hn::Lt(magnitude, set(F::kFirstNormal)), subnormal, hn::Add(shifted, set(F::kRebias)));
    bits = hn::IfThenElse(hn::Lt(magnitude, set(F::kFirstNonFinite)), bits, hn::Or(shifted, set(kFloatInfinity)));
    return hn::BitCast(d, hn::Or(bits, sign));
  }
}

// Calls body(tag, i) for all i of [0, count), a vector or one at a time.
template <class Body>
HWY_INLINE void for_all(std::size_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) body(d, i);
  for (; i < count; ++i) body(hn::CappedTag<float, 1>(), i);
}

template <class F>
void narrow_all(const float* values, typename F::Word* words, std::size_t count) {
  for_all(count, [&](auto d, std::size_t i) {
    const hn::Rebind<typename F::Word, decltype(d)> narrow;
    hn::StoreU(hn::DemoteTo(narrow, narrowed<F>(d, hn::LoadU(d, values + i))), narrow, words + i);
  });
}

template <class F>
void widen_all(const typename F::Word* words, float* values, std::size_t count) {
  for_all(count, [&](auto d, std::size_t i) {
    const hn::Rebind<typename F::Word, decltype(d)> narrow;
    const hn::RebindToSigned<decltype(d)> wide;
    hn::StoreU(widened<F>(d, hn::PromoteTo(wide, hn::LoadU(narrow, words + i))), d, values + i);
  });
}

template <class F>
void round_all(const float* values, float* rounded, std::size_t count, float scale) {
  const float back = 1 / scale;
  for_all(count, [&](auto d, std::size_t i) {
    const auto scaled = hn::Mul(hn::LoadU(d, values + i), hn::Set(d, scale));
    hn::StoreU(hn::Mul(widened<F>(d, narrowed<F>(d, scaled)), hn::Set(d, back)), d, rounded + i);
  });
}

void narrow_bf16(const float* v, std::uint16_t* w, std::size_t n) { narrow_all<BFloat16Format>(v, w, n); }
void narrow_f16(const float* v, std::uint16_t* w, std::size_t n) { narrow_all<Float16Format>(v, w, n); }
void narrow_e4m3(const float* v, std::uint8_t* w, std::size_t n) { narrow_all<Float8E4M3Format>(v, w, n); }
void narrow_e5m2(const float* v, std::uint8_t* w, std::size_t n) { narrow_all<Float8E5M2Format>(v, w, n); }
void widen_bf16(const std::uint16_t* w, float* v, std::size_t n) { widen_all<BFloat16Format>(w, v, n); }
void widen_f16(const std::uint16_t* w, float* v, std::size_t n) { widen_all<Float16Format>(w, v, n); }
void widen_e4m3(const std::uint8_t* w, float* v, std::size_t n) { widen_all<Float8E4M3Format>(w, v, n); }
void widen_e5m2(const std::uint8_t* w, float* v, std::size_t n) { widen_all<Float8E5M2Format>(w, v, n); }

void round_values(FloatFormat format, const float* values, float* rounded, std::size_t count, float scale) {
  switch (format) {
    case FloatFormat::BFloat16: return round_all<BFloat16Format>(values, rounded, count, scale);
    case FloatFormat::Float16: return round_all<Float16Format>(values, rounded, count, scale);
    case FloatFormat::Float8E4M3: return round_all<Float8E4M3Format>(values, rounded, count, scale);
    case FloatFormat::Float8E5M2: return round_all<Float8E5M2Format>(values, rounded, count, scale);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace wreath::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath::training {

namespace {

HWY_EXPORT(narrow_bf16);
HWY_EXPORT(narrow_f16);
HWY_EXPORT(narrow_e4m3);
HWY_EXPORT(narrow_e5m2);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(widen_f16);
HWY_EXPORT(widen_e4m3);
HWY_EXPORT(widen_e5m2);
HWY_EXPORT(round_values);

std::size_t data_type_bits(FloatFormat format) { return 8 * size_of(data_type(format)); }

[[noreturn]] void refuse_words(std::size_t bits) {
  throw Exception({ErrorCode::InvalidArgument, fmt::format("this format has no words of {} bits", bits)});
}

void expect_equal(std::size_t values, std::size_t words) {
  if (values == words) return;
  throw Exception({ErrorCode::InvalidArgument, fmt::format("a conversion of {} values to or from {}", values, words)});
}

}  // namespace

float largest(FloatFormat format) noexcept {
  switch (format) {
    case FloatFormat::BFloat16: return std::bit_cast<float>(0x7f7f0000u);
    case FloatFormat::Float16: return 65504;
    case FloatFormat::Float8E4M3: return 448;
    case FloatFormat::Float8E5M2: return 57344;
  }
  return 0;
}

DataType data_type(FloatFormat format) noexcept {
  switch (format) {
    case FloatFormat::BFloat16: return DataType::BFloat16;
    case FloatFormat::Float16: return DataType::Float16;
    case FloatFormat::Float8E4M3: return DataType::Float8E4M3;
    case FloatFormat::Float8E5M2: break;
  }
  return DataType::Float8E5M2;
}

void narrow(FloatFormat format, std::span<const float> values, std::span<std::uint16_t> words) {
  expect_equal(values.size(), words.size());
  if (Compute* const on = compute_of(words)) {
    if (data_type_bits(format) != 16) refuse_words(16);
    auto* const from = const_cast<float*>(on->at(values));  // it is read
    return on->launch_elements(ConvertRun{from, on->at(words), words.size(), format, true}, words.size());
  }
  switch (format) {
    case FloatFormat::BFloat16: return HWY_DYNAMIC_DISPATCH(narrow_bf16)(values.data(), words.data(), values.size());
    case FloatFormat::Float16: return HWY_DYNAMIC_DISPATCH(narrow_f16)(values.data(), words.data(), values.size());
    default: refuse_words(16);
  }
}

void narrow(FloatFormat format, std::span<const float> values, std::span<std::uint8_t> words) {
  expect_equal(values.size(), words.size());
  switch (format) {
    case FloatFormat::Float8E4M3: return HWY_DYNAMIC_DISPATCH(narrow_e4m3)(values.data(), words.data(), values.size());
    case FloatFormat::Float8E5M2: return HWY_DYNAMIC_DISPATCH(narrow_e5m2)(values.data(), words.data(), values.size());
    default: refuse_words(8);
  }
}

void widen(FloatFormat format, std::span<const std::uint16_t> words, std::span<float> values) {
  expect_equal(values.size(), words.size());
  if (Compute* const on = compute_of(values)) {
    if (data_type_bits(format) != 16) refuse_words(16);
    auto* const from = const_cast<std::uint16_t*>(on->at(words));  // it is read
    return on->launch_elements(ConvertRun{on->at(values), from, words.size(), format, false}, words.size());
  }
  switch (format) {
    case FloatFormat::BFloat16: return HWY_DYNAMIC_DISPATCH(widen_bf16)(words.data(), values.data(), values.size());
    case FloatFormat::Float16: return HWY_DYNAMIC_DISPATCH(widen_f16)(words.data(), values.data(), values.size());
    default: refuse_words(16);
  }
}

void widen(FloatFormat format, std::span<const std::uint8_t> words, std::span<float> values) {
  expect_equal(values.size(), words.size());
  switch (format) {
    case FloatFormat::Float8E4M3: return HWY_DYNAMIC_DISPATCH(widen_e4m3)(words.data(), values.data(), values.size());
    case FloatFormat::Float8E5M2: return HWY_DYNAMIC_DISPATCH(widen_e5m2)(words.data(), values.data(), values.size());
    default: refuse_words(8);
  }
}

void round_to(FloatFormat format, std::span<const float> values, std::span<float> rounded, float scale) {
  expect_equal(values.size(), rounded.size());
  if (Compute* const on = compute_of(rounded)) {
    return on->launch_elements(RoundRun{on->at(values), on->at(rounded), values.size(), scale, format}, values.size());
  }
  HWY_DYNAMIC_DISPATCH(round_values)(format, values.data(), rounded.data(), values.size(), scale);
}

}  // namespace wreath::training
#endif  // HWY_ONCE
