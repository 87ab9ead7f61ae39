// This file converts arrays, and is compiled once per instruction set (Highway).
#include "training/compute/convert.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstddef>
#include <limits>

#include "training/compute/compute.hpp"
#include "training/compute/kernels/kernels.hpp"
#include "training/compute/targets.hpp"
#include "wreath/narrow_floats.hpp"
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

// Returns words of the format, each in 32 bits. All magnitudes are below 2^31, so they compare as signed integers do.
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
  const auto number = hn::IfThenElse(hn::Lt(magnitude, set(kFloatInfinity)), finite, set(F::kFromInfinity));
  const bool has_infinity = F::kFromInfinity != F::kNan;
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
    // A subnormal has no implicit bit, so the implicit bit of the least normal number is added and subtracted.
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
void narrow_all(const float* values, void* target, std::size_t count) {
  auto* const words = static_cast<typename F::Bits*>(target);
  for_all(count, [&](auto d, std::size_t i) {
    const hn::Rebind<typename F::Bits, decltype(d)> narrow;
    hn::StoreU(hn::DemoteTo(narrow, narrowed<F>(d, hn::LoadU(d, values + i))), narrow, words + i);
  });
}

template <class F>
void widen_all(const void* source, float* values, std::size_t count) {
  const auto* const words = static_cast<const typename F::Bits*>(source);
  for_all(count, [&](auto d, std::size_t i) {
    const hn::Rebind<typename F::Bits, decltype(d)> narrow;
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

// The loops of one format. They are null for dtypes that are no such format.
struct Conversions {
  void (*narrow)(const float* values, void* words, std::size_t count) = nullptr;
  void (*widen)(const void* words, float* values, std::size_t count) = nullptr;
  void (*round)(const float* values, float* rounded, std::size_t count, float scale) = nullptr;
};
template <typename T>
constexpr Conversions conversions_of() {
  if constexpr (NarrowFormat<T>::kExists) {
    using F = NarrowFormat<T>;
    return {narrow_all<F>, widen_all<F>, round_all<F>};
  } else {
    return {};
  }
}
using ConversionTable = std::array<Conversions, kDataTypeCount>;
constexpr ConversionTable kConversions =
    table_by_dtype<ConversionTable>([](auto row) { return conversions_of<typename decltype(row)::Element>(); });

const Conversions& loops_of(DataType format) { return kConversions[static_cast<std::size_t>(format)]; }

void narrow_values(DataType format, const float* values, void* words, std::size_t count) {
  loops_of(format).narrow(values, words, count);
}
void widen_words(DataType format, const void* words, float* values, std::size_t count) {
  loops_of(format).widen(words, values, count);
}
void round_values(DataType format, const float* values, float* rounded, std::size_t count, float scale) {
  loops_of(format).round(values, rounded, count, scale);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace wreath::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath::training {

namespace {

HWY_EXPORT(narrow_values);
HWY_EXPORT(widen_words);
HWY_EXPORT(round_values);

bool is_narrow(DataType format) { return is_floating(format) && accumulator_of(format) != format; }

void expect_format(DataType format) {
  if (is_narrow(format)) return;
  throw Exception({ErrorCode::InvalidArgument, fmt::format("{} is no format narrower than float32", name(format))});
}

template <typename Word>
void expect_words(DataType format) {
  if (is_narrow(format) && size_of(format) == sizeof(Word)) return;
  throw Exception({ErrorCode::InvalidArgument, fmt::format("this format has no words of {} bits", 8 * sizeof(Word))});
}

void expect_equal(std::size_t values, std::size_t words) {
  if (values == words) return;
  throw Exception({ErrorCode::InvalidArgument, fmt::format("a conversion of {} values to or from {}", values, words)});
}

}  // namespace

float largest(DataType format) noexcept {
  return for_dtype(format, []<typename T>(T) {
    if constexpr (NarrowFormat<T>::kExists) {
      return wreath::widen(T{static_cast<typename NarrowFormat<T>::Bits>(NarrowFormat<T>::kFirstNonFinite - 1)});
    } else {
      return std::numeric_limits<float>::max();
    }
  });
}

void narrow(DataType format, std::span<const float> values, std::span<std::uint16_t> words) {
  expect_equal(values.size(), words.size());
  expect_words<std::uint16_t>(format);
  if (Compute* const on = compute_of(words)) {
    // The kernel only reads the values.
    auto* const from = const_cast<float*>(on->at(values));
    return on->launch_elements(ConvertRun{from, on->at(words), words.size(), format, true}, words.size());
  }
  HWY_DYNAMIC_DISPATCH(narrow_values)(format, values.data(), words.data(), values.size());
}

void narrow(DataType format, std::span<const float> values, std::span<std::uint8_t> words) {
  expect_equal(values.size(), words.size());
  expect_words<std::uint8_t>(format);
  HWY_DYNAMIC_DISPATCH(narrow_values)(format, values.data(), words.data(), values.size());
}

void widen(DataType format, std::span<const std::uint16_t> words, std::span<float> values) {
  expect_equal(values.size(), words.size());
  expect_words<std::uint16_t>(format);
  if (Compute* const on = compute_of(values)) {
    // The kernel only reads the words.
    auto* const from = const_cast<std::uint16_t*>(on->at(words));
    return on->launch_elements(ConvertRun{on->at(values), from, words.size(), format, false}, words.size());
  }
  HWY_DYNAMIC_DISPATCH(widen_words)(format, words.data(), values.data(), values.size());
}

void widen(DataType format, std::span<const std::uint8_t> words, std::span<float> values) {
  expect_equal(values.size(), words.size());
  expect_words<std::uint8_t>(format);
  HWY_DYNAMIC_DISPATCH(widen_words)(format, words.data(), values.data(), values.size());
}

void round_to(DataType format, std::span<const float> values, std::span<float> rounded, float scale) {
  expect_equal(values.size(), rounded.size());
  expect_format(format);
  if (Compute* const on = compute_of(rounded)) {
    return on->launch_elements(RoundRun{on->at(values), on->at(rounded), values.size(), scale, format}, values.size());
  }
  HWY_DYNAMIC_DISPATCH(round_values)(format, values.data(), rounded.data(), values.size(), scale);
}

}  // namespace wreath::training
#endif  // HWY_ONCE
