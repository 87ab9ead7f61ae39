// Conversions are compared with an exact reference. It computes every code's value by its definition, and searches them
// for the nearest one.
#include "training/compute/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/training/math/instruction_sets.hpp"
#include "training/compute/magnitudes.hpp"
#include "training/random/philox.hpp"
#include "wreath/result.hpp"

namespace wreath::training {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  DataType format;
  const char* name;
  int bits;
  int mantissa;
  // True: the largest exponent belongs to infinity and NaN. False: only the very last code is NaN.
  bool ieee;
  bool saturates;  // finite values never become infinity
};
constexpr std::array<Case, 4> kCases = {{{DataType::BFloat16, "bf16", 16, 7, true, false},
                                         {DataType::Float16, "f16", 16, 10, true, false},
                                         {DataType::Float8E4M3, "e4m3", 8, 3, false, true},
                                         {DataType::Float8E5M2, "e5m2", 8, 2, true, true}}};

int exponent_bits(const Case& of) { return of.bits - 1 - of.mantissa; }

// Returns the value in float64 of a code without its sign.
double value_of(const Case& of, unsigned code) {
  const int exponent = static_cast<int>(code >> of.mantissa);
  const auto fraction = static_cast<double>(code & ((1u << of.mantissa) - 1));
  const int bias = (1 << (exponent_bits(of) - 1)) - 1;
  if (of.ieee && exponent == (1 << exponent_bits(of)) - 1) return fraction == 0 ? HUGE_VAL : std::nan("");
  if (!of.ieee && code + 1 == 1u << (of.bits - 1)) return std::nan("");
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - of.mantissa);
  return std::ldexp(1 + std::ldexp(fraction, -of.mantissa), exponent - bias);
}

unsigned nan_code(const Case& of) {
  const unsigned last = (1u << (of.bits - 1)) - 1;
  return of.ieee ? last >> of.mantissa << of.mantissa | 1u << (of.mantissa - 1) : last;
}

// Returns all finite magnitudes, by code.
std::vector<double> finite_values(const Case& of) {
  std::vector<double> values;
  for (unsigned code = 0; std::isfinite(value_of(of, code)); ++code) values.push_back(value_of(of, code));
  return values;
}

// Returns the code that a float narrows to.
unsigned nearest(const Case& of, const std::vector<double>& values, float value) {
  const auto last = static_cast<unsigned>(values.size() - 1);
  const unsigned sign = std::signbit(value) ? 1u << (of.bits - 1) : 0u;
  const double magnitude = std::abs(static_cast<double>(value));
  if (std::isnan(magnitude)) return nan_code(of);
  if (std::isinf(magnitude)) return of.ieee ? sign | (last + 1) : nan_code(of);
  if (magnitude >= values[last]) {
    const double half_step = (values[last] - values[last - 1]) / 2;
    const bool beyond = !of.saturates && magnitude - values[last] >= half_step;
    return sign | (beyond ? last + 1 : last);
  }
  const auto above = static_cast<unsigned>(std::upper_bound(values.begin(), values.end(), magnitude) - values.begin());
  const double down = magnitude - values[above - 1];
  const double up = values[above] - magnitude;
  const bool odd = (above - 1) % 2 == 1;
  return sign | (down > up || (down == up && odd) ? above : above - 1);
}

std::vector<unsigned> narrowed(const Case& of, const std::vector<float>& values) {
  if (of.bits == 16) {
    std::vector<std::uint16_t> words(values.size());
    narrow(of.format, values, words);
    return {words.begin(), words.end()};
  }
  std::vector<std::uint8_t> words(values.size());
  narrow(of.format, values, words);
  return {words.begin(), words.end()};
}

std::vector<float> widened_all(const Case& of) {
  std::vector<float> values(std::size_t{1} << of.bits);
  std::vector<std::uint16_t> words(values.size());
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint16_t>(i);
  if (of.bits == 16) {
    widen(of.format, words, values);
  } else {
    const std::vector<std::uint8_t> bytes(words.begin(), words.end());
    widen(of.format, bytes, values);
  }
  return values;
}

// Returns values near which the result changes: every code's value, the middle of two codes with its neighbours, and
// the edges.
std::vector<float> telling_values(const Case& of) {
  std::vector<float> values = {0,      kInfinity,      kNan,         std::bit_cast<float>(0x7f800001u),
                               1e-45f, 1.1754942e-38f, 3.4028235e38f};
  double before = 0;
  for (const double value : finite_values(of)) {
    for (const double at : {value, (before + value) / 2}) {
      const auto here = static_cast<float>(at);
      for (const float near : {here, std::nextafter(here, 0.0f), std::nextafter(here, kInfinity)})
        values.push_back(near);
    }
    before = value;
  }
  const auto past = static_cast<float>(std::min(before * (1 + std::ldexp(1.0, -of.mantissa - 2)), 3.4e38));
  for (const float near : {past, std::nextafter(past, 0.0f), std::nextafter(past, kInfinity), 2 * past})
    values.push_back(near);
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  const RandomStream stream(11, "bits");
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    values.push_back(std::bit_cast<float>(
        static_cast<std::uint32_t>(stream.below(0x7fffffff, 2 * i) << 1 | stream.below(2, 2 * i + 1))));
  }
  return values;
}

class Conversion : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Formats, Conversion, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST_P(Conversion, WidensEveryCode) {
  const Case& of = GetParam();
  with_every_instruction_set([&] {
    const std::vector<float> values = widened_all(of);
    for (unsigned code = 0; code < values.size(); ++code) {
      const unsigned sign = 1u << (of.bits - 1);
      const double expected = value_of(of, code & ~sign);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(values[code])) << code;
        continue;
      }
      EXPECT_EQ(static_cast<double>(values[code]), code < sign ? expected : -expected) << code;
      EXPECT_EQ(std::signbit(values[code]), code >= sign) << code;
    }
  });
}

TEST_P(Conversion, NarrowsToTheNearestOrTheEvenOne) {
  const Case& of = GetParam();
  const std::vector<float> values = telling_values(of);
  const std::vector<double> codes = finite_values(of);
  std::vector<unsigned> expected;
  for (const float value : values) expected.push_back(nearest(of, codes, value));
  with_every_instruction_set([&] {
    const std::vector<unsigned> words = narrowed(of, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(words[i], expected[i]) << std::hex << std::bit_cast<std::uint32_t>(values[i]) << " " << values[i];
    }
  });
}

TEST_P(Conversion, KeepsEveryCodeThatIsNoNan) {
  const Case& of = GetParam();
  const std::vector<float> values = widened_all(of);
  const std::vector<unsigned> words = narrowed(of, values);
  for (unsigned code = 0; code < words.size(); ++code) {
    EXPECT_EQ(words[code], std::isnan(values[code]) ? nan_code(of) : code);
  }
}

TEST_P(Conversion, RoundsValuesAsNarrowingAndWideningDoes) {
  const Case& of = GetParam();
  std::vector<float> values = telling_values(of);
  const std::vector<float> all = widened_all(of);
  std::vector<float> expected;
  for (const unsigned word : narrowed(of, values)) expected.push_back(all[word]);
  round_to(of.format, values, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected[i])) << i;
  }
}

TEST(Conversion, ScalesByPowersOfTwoExactly) {
  const std::vector<float> values = {1e-6f, -3e-6f, 2.7e-7f};
  std::vector<float> rounded(values.size());
  round_to(DataType::Float8E4M3, values, rounded, 0x1p27f);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(rounded[i] / values[i], 1, 1.0 / 16) << i;
  round_to(DataType::Float8E4M3, values, rounded, 1);
  EXPECT_EQ(rounded, (std::vector<float>{0, -0.0f, 0}));
}

TEST(Conversion, FindsTheHighestMagnitude) {
  std::vector<float> values(1000, 0.5f);
  values[777] = -2.0f;
  EXPECT_EQ(highest_magnitude(values), 2.0f);
  values[998] = -kInfinity;
  EXPECT_EQ(highest_magnitude(values), kInfinity);
  values[3] = kNan;
  EXPECT_TRUE(std::isnan(highest_magnitude(values)));
  EXPECT_EQ(highest_magnitude({}), 0.0f);
}

TEST(Conversion, RefusesWordsOfAnotherWidthAndOtherCounts) {
  const std::vector<float> values(4);
  std::vector<std::uint8_t> bytes(4);
  std::vector<std::uint16_t> words(3);
  EXPECT_THROW(narrow(DataType::BFloat16, values, bytes), Exception);
  EXPECT_THROW(narrow(DataType::BFloat16, values, words), Exception);
}

}  // namespace
}  // namespace wreath::training
