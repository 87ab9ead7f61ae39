// Tests the arithmetic of one element against slow definitions that share nothing with it.
#include "kernels/arithmetic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace wreath {
namespace {

// Describes a format in the terms of its standard.
template <typename T>
struct Facts;
template <>
struct Facts<Float16> {
  static constexpr int kExponentBits = 5, kMantissaBits = 10;
  static constexpr bool kSaturates = false;
};
template <>
struct Facts<BFloat16> {
  static constexpr int kExponentBits = 8, kMantissaBits = 7;
  static constexpr bool kSaturates = false;
};
template <>
struct Facts<Float8E4M3> {
  static constexpr int kExponentBits = 4, kMantissaBits = 3;
  static constexpr bool kSaturates = true;
};
template <>
struct Facts<Float8E5M2> {
  static constexpr int kExponentBits = 5, kMantissaBits = 2;
  static constexpr bool kSaturates = true;
};

template <typename T>
class NarrowFloat : public testing::Test {
 public:
  static constexpr int kBits = 1 + Facts<T>::kExponentBits + Facts<T>::kMantissaBits;
  static constexpr unsigned kCodes = 1u << kBits;
  static constexpr unsigned kSign = kCodes / 2;
  static constexpr bool kHasInfinity = !std::is_same_v<T, Float8E4M3>;

  static T element(unsigned code) { return T{static_cast<decltype(T::bits)>(code)}; }

  // Returns the value of a code, by the definition of the format.
  static double value(unsigned code) {
    constexpr int kBias = (1 << (Facts<T>::kExponentBits - 1)) - 1;
    constexpr unsigned kTop = (1u << Facts<T>::kExponentBits) - 1;
    const unsigned mantissa = code % (1u << Facts<T>::kMantissaBits);
    const unsigned exponent = code % kSign >> Facts<T>::kMantissaBits;
    const double sign = code >= kSign ? -1 : 1;
    const bool all_ones = exponent == kTop && (kHasInfinity || mantissa == (1u << Facts<T>::kMantissaBits) - 1);
    if (all_ones && kHasInfinity && mantissa == 0) return sign * std::numeric_limits<double>::infinity();
    if (all_ones) return std::numeric_limits<double>::quiet_NaN();
    const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - kBias - Facts<T>::kMantissaBits;
    return sign * std::ldexp((exponent == 0 ? 0 : 1 << Facts<T>::kMantissaBits) + static_cast<int>(mantissa), scale);
  }

  // Returns the largest finite code.
  static unsigned largest() {
    unsigned code = kSign - 1;
    while (!std::isfinite(value(code))) --code;
    return code;
  }

  // Rounds by a look at every neighbour: codes of finite positive values ascend.
  static unsigned rounded(float wide) {
    constexpr unsigned kNan = sizeof(T) == 2 ? (kHasInfinity && Facts<T>::kExponentBits == 5 ? 0x7e00 : 0x7fc0)
                                             : (kHasInfinity ? 0x7e : 0x7f);
    if (std::isnan(wide) || (std::isinf(wide) && !kHasInfinity)) return kNan;
    const unsigned sign = std::signbit(wide) ? kSign : 0;
    const double magnitude = std::fabs(static_cast<double>(wide));
    const unsigned top = largest();
    if (std::isinf(wide)) return sign | (top + 1);
    if (magnitude > value(top)) {
      // This is the value that the next exponent would have.
      const double next = value(top) + (value(top) - value(top - 1));
      const bool down = Facts<T>::kSaturates || magnitude < (value(top) + next) / 2;
      return sign | (down ? top : top + 1);
    }
    unsigned low = 0;
    for (unsigned step = kSign / 2; step > 0; step /= 2) {
      if (low + step <= top && value(low + step) <= magnitude) low += step;
    }
    if (value(low) == magnitude) return sign | low;
    const double below = magnitude - value(low);
    const double above = value(low + 1) - magnitude;
    const bool up = above < below || (above == below && low % 2 == 1);
    return sign | (up ? low + 1 : low);
  }
};

using NarrowTypes = testing::Types<Float16, BFloat16, Float8E4M3, Float8E5M2>;
TYPED_TEST_SUITE(NarrowFloat, NarrowTypes);

TYPED_TEST(NarrowFloat, WidensEveryCodeToItsValue) {
  for (unsigned code = 0; code < this->kCodes; ++code) {
    const float wide = widen(this->element(code));
    const double expected = this->value(code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << code;
    } else {
      ASSERT_EQ(wide, expected) << code;
      ASSERT_EQ(std::signbit(wide), code >= this->kSign) << code;
    }
  }
}

TYPED_TEST(NarrowFloat, EveryCodeSurvivesARoundTrip) {
  for (unsigned code = 0; code < this->kCodes; ++code) {
    const unsigned back = narrow<TypeParam>(widen(this->element(code))).bits;
    ASSERT_EQ(back, std::isnan(this->value(code)) ? this->rounded(NAN) : code);
  }
}

TYPED_TEST(NarrowFloat, RoundsToNearestEvenBetweenAllNeighbours) {
  const auto check = [this](float wide) {
    ASSERT_EQ(narrow<TypeParam>(wide).bits, this->rounded(wide)) << std::bit_cast<std::uint32_t>(wide);
    ASSERT_EQ(narrow<TypeParam>(-wide).bits, this->rounded(-wide)) << std::bit_cast<std::uint32_t>(wide);
  };
  for (unsigned code = 0; code <= this->largest(); ++code) {
    const double value = this->value(code);
    const double next = code < this->largest() ? this->value(code + 1) : value + (value - this->value(code - 1));
    const auto middle = static_cast<float>((value + next) / 2);
    for (const float around : {static_cast<float>(value), middle}) {
      check(around);
      check(std::nextafter(around, 0.0f));
      check(std::nextafter(around, std::numeric_limits<float>::infinity()));
    }
    ASSERT_FALSE(this->HasFatalFailure());
  }
}

TYPED_TEST(NarrowFloat, RoundsAnyFloat) {
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) {
    const float wide = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    ASSERT_EQ(narrow<TypeParam>(wide).bits, this->rounded(wide)) << std::bit_cast<std::uint32_t>(wide);
  }
  for (const std::uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800001u, 0xffc12345u, 1u}) {
    EXPECT_EQ(narrow<TypeParam>(std::bit_cast<float>(bits)).bits, this->rounded(std::bit_cast<float>(bits))) << bits;
  }
}

// GCC 12 has the type on ARM in C alone.
#if defined(__FLT16_MANT_DIG__) && !defined(__aarch64__)
TEST(Float16, IsTheCompilersOwn) {
  for (unsigned code = 0; code < 0x10000; ++code) {
    const auto half = std::bit_cast<_Float16>(static_cast<std::uint16_t>(code));
    const auto expected = static_cast<float>(half);
    const float wide = widen(Float16{static_cast<std::uint16_t>(code)});
    ASSERT_TRUE(wide == expected || (std::isnan(wide) && std::isnan(expected))) << code;
  }
  std::mt19937 random(2);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random() % 0x20000000u) + 0x30000000u;  // 2^-31 to 2^33
    const auto half = static_cast<_Float16>(std::bit_cast<float>(bits));
    ASSERT_EQ(narrow<Float16>(std::bit_cast<float>(bits)).bits, std::bit_cast<std::uint16_t>(half)) << bits;
  }
}
#endif

TEST(Float8, KnownValues) {
  EXPECT_EQ(widen(Float8E4M3{0x7e}), 448.0f);
  EXPECT_EQ(widen(Float8E4M3{0x01}), std::ldexp(1.0f, -9));
  EXPECT_EQ(widen(Float8E5M2{0x7b}), 57344.0f);
  EXPECT_EQ(widen(Float8E5M2{0x01}), std::ldexp(1.0f, -16));
  EXPECT_EQ(narrow<Float8E4M3>(1e30f).bits, 0x7e);
  EXPECT_EQ(narrow<Float8E4M3>(-INFINITY).bits, 0x7f);
  EXPECT_EQ(narrow<Float8E5M2>(-1e30f).bits, 0xfb);
  EXPECT_EQ(narrow<Float8E5M2>(-INFINITY).bits, 0xfc);
}

template <typename T>
class FloatExtremes : public testing::Test {};
using WideTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(FloatExtremes, WideTypes);

TYPED_TEST(FloatExtremes, PropagateNanAndOrderZeros) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T infinity = std::numeric_limits<T>::infinity();
  const T values[] = {-infinity, -1, -std::numeric_limits<T>::denorm_min(), T{-0.0}, T{0}, 1, infinity};
  for (std::size_t i = 0; i < std::size(values); ++i) {
    EXPECT_TRUE(std::isnan(minimum(values[i], nan)) && std::isnan(minimum(nan, values[i])));
    EXPECT_TRUE(std::isnan(maximum(values[i], nan)) && std::isnan(maximum(nan, values[i])));
    for (std::size_t j = 0; j < std::size(values); ++j) {
      const T least = minimum(values[i], values[j]);
      const T greatest = maximum(values[i], values[j]);
      EXPECT_EQ(least, values[std::min(i, j)]);
      EXPECT_EQ(std::signbit(least), std::signbit(values[std::min(i, j)]));
      EXPECT_EQ(greatest, values[std::max(i, j)]);
      EXPECT_EQ(std::signbit(greatest), std::signbit(values[std::max(i, j)]));
    }
  }
}

TEST(IntegerArithmetic, Wraps) {
  EXPECT_EQ(add<std::int8_t>(127, 1), -128);
  EXPECT_EQ(multiply<std::int8_t>(-128, -1), -128);
  EXPECT_EQ(multiply<std::uint8_t>(255, 255), 1);
  EXPECT_EQ(add(std::numeric_limits<std::int32_t>::max(), 1), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(multiply(std::int64_t{1} << 40, std::int64_t{1} << 40), 0);
  EXPECT_EQ(multiply(std::uint64_t{0xffffffffffffffff}, std::uint64_t{3}), 0xfffffffffffffffdu);
}

TEST(IntegerArithmetic, AveragesTruncateTowardZero) {
  EXPECT_EQ(divide<std::int8_t>(-7, 2), -3);
  EXPECT_EQ(divide<std::int8_t>(-128, 1), -128);
  // There are more ranks than the type has numbers.
  EXPECT_EQ(divide<std::int8_t>(-128, 300), 0);
  EXPECT_EQ(divide<std::uint8_t>(255, 2), 127);
  EXPECT_EQ(divide<std::uint32_t>(0xffffffffu, 2), 0x7fffffffu);
  EXPECT_EQ(divide<std::int64_t>(std::numeric_limits<std::int64_t>::min(), 3), -3074457345618258602);
  EXPECT_EQ(divide<std::uint64_t>(0xffffffffffffffffu, 3), 0x5555555555555555u);
}

TEST(Factors, AreRoundedToTheAccumulatorFirst) {
  EXPECT_EQ(factor_in<float>(Reduction::premultiplied_sum(0.1)), 0.1f);
  EXPECT_EQ(factor_in<double>(Reduction::premultiplied_sum(0.1)), 0.1);
  EXPECT_EQ(factor_in<std::uint8_t>(Reduction::premultiplied_sum(std::int64_t{-1})), 255);
  EXPECT_EQ(factor_in<std::int32_t>(Reduction::premultiplied_sum((std::int64_t{1} << 32) + 5)), 5);
}

// The checks run at compile time, where a conversion that the language does not define would not compile.
TEST(Factors, OfNoIntegerAreZeroForIntegers) {
  constexpr double kEnd = 9223372036854775808.0;
  static_assert(Reduction::premultiplied_sum(-2.9).integer_factor == -2);
  static_assert(Reduction::premultiplied_sum(-kEnd).integer_factor == std::numeric_limits<std::int64_t>::min());
  static_assert(Reduction::premultiplied_sum(kEnd).integer_factor == 0);
  static_assert(Reduction::premultiplied_sum(1e300).integer_factor == 0);
  static_assert(Reduction::premultiplied_sum(std::numeric_limits<double>::infinity()).integer_factor == 0);
  static_assert(Reduction::premultiplied_sum(std::numeric_limits<double>::quiet_NaN()).integer_factor == 0);
  EXPECT_EQ(factor_in<double>(Reduction::premultiplied_sum(1e300)), 1e300);
}

}  // namespace
}  // namespace wreath
