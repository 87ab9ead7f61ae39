// Tests every compiled-in instruction set that runs here, bit for bit, against the scalar reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/support/walled_memory.hpp"
#include "tests/unit/kernels/values.hpp"

namespace wreath {
namespace {

std::vector<CombineTarget> all_targets() {
  std::array<CombineTarget, 16> found{};
  const std::size_t count = combine_targets(found.data(), found.size());
  return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count)};
}

// Describes one combination: everything but the bytes.
struct Case {
  Arithmetic arithmetic;
  int k = 1;
  std::size_t elements = 0;
  Operands operands{};
  Form target = Form::Data;

  Form form(int source) const { return source == operands.own ? operands.own_form : operands.messages; }
  DataType type(Form of) const { return of == Form::Data ? arithmetic.dtype : accumulator_of(arithmetic.dtype); }
  std::size_t bytes(Form of) const { return elements * size_of(type(of)); }
};

std::string text(const Case& of) {
  const auto letter = [](Form form) { return form == Form::Data ? 'D' : 'P'; };
  std::string text = std::string(name(of.arithmetic.dtype)) + " " + std::string(name(of.arithmetic.reduction.op));
  text += " k " + std::to_string(of.k) + " elements " + std::to_string(of.elements) + " messages ";
  text += std::string{letter(of.operands.messages)} + " own " + std::to_string(of.operands.own);
  return text + letter(of.operands.own_form) + " target " + letter(of.target);
}

// Holds the sources of a case, each at its own misalignment in its own memory.
class Inputs {
 public:
  Inputs(const Case& of, bool aligned) : memory_(static_cast<std::size_t>(of.k)) {
    std::mt19937 random(static_cast<unsigned>(of.k) * 1000u + static_cast<unsigned>(of.elements));
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const Form form = of.form(static_cast<int>(i));
      const std::size_t offset = aligned ? 0 : (i * 3 + 1) % 17;
      // The address is never null.
      memory_[i].resize(offset + of.bytes(form) + 1);
      fill(of.type(form), random, memory_[i].data() + offset, of.elements);
      offsets_.push_back(offset);
    }
  }
  // Returns addresses that are valid while the inputs stay at their place.
  std::vector<const std::byte*> sources() const {
    std::vector<const std::byte*> sources;
    for (std::size_t i = 0; i < memory_.size(); ++i) sources.push_back(memory_[i].data() + offsets_[i]);
    return sources;
  }
  std::byte* writable(std::size_t i) { return memory_[i].data() + offsets_[i]; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::size_t> offsets_;
};

constexpr std::size_t kOffset = 5;
constexpr std::byte kGuard{0xa5};

// Returns the target's bytes, with untouched bytes around them.
std::vector<std::byte> run(const Case& of, Arithmetic::Combine combine, const Inputs& inputs) {
  std::vector<std::byte> target(kOffset + of.bytes(of.target) + 64, kGuard);
  combine(of.arithmetic, target.data() + kOffset, of.target, inputs.sources().data(), of.k, of.operands, of.elements);
  return target;
}

void expect_the_reference(const Case& of) {
  const Inputs inputs(of, of.elements % 3 == 0);
  const std::vector<std::byte> expected = run(of, combine_reference, inputs);
  for (const CombineTarget& target : all_targets()) {
    ASSERT_EQ(run(of, target.combine, inputs), expected) << target.name << " " << text(of);
  }
}

void expect_the_reference_in_place(const Case& of, int place) {
  const Inputs inputs(of, false);
  const std::vector<std::byte> expected = run(of, combine_reference, inputs);
  for (const CombineTarget& target : all_targets()) {
    Inputs changed = inputs;
    std::byte* output = changed.writable(static_cast<std::size_t>(place));
    target.combine(of.arithmetic, output, of.target, changed.sources().data(), of.k, of.operands, of.elements);
    ASSERT_EQ(0, std::memcmp(output, expected.data() + kOffset, of.bytes(of.target)))
        << target.name << " " << text(of) << " in place of " << place;
  }
}

void expect_the_reference_between_walls(const Case& of, test::Wall wall) {
  const Inputs inputs(of, true);
  const std::vector<std::byte> expected = run(of, combine_reference, inputs);
  std::deque<test::WalledMemory> walled;
  std::vector<const std::byte*> sources;
  for (const std::byte* source : inputs.sources()) {
    const std::size_t bytes = of.bytes(of.form(static_cast<int>(sources.size())));
    sources.push_back(walled.emplace_back(bytes, wall).data());
    std::memcpy(walled.back().data(), source, bytes);
  }
  const test::WalledMemory target(of.bytes(of.target), wall);
  for (const CombineTarget& each : all_targets()) {
    each.combine(of.arithmetic, target.data(), of.target, sources.data(), of.k, of.operands, of.elements);
    ASSERT_EQ(0, std::memcmp(target.data(), expected.data() + kOffset, of.bytes(of.target)))
        << each.name << " " << text(of);
  }
}

// Returns every way to say which forms k sources have.
std::vector<Operands> operands_of(int k) {
  std::vector<Operands> all;
  for (const Form messages : {Form::Data, Form::Partial}) {
    all.push_back({messages, -1, Form::Data});
    for (const Form own : {Form::Data, Form::Partial}) {
      all.push_back({messages, k - 1, own});
      if (k > 2) all.push_back({messages, k / 2, own});
    }
  }
  return all;
}

class EachReduction : public testing::TestWithParam<std::tuple<DataType, ReduceOp>> {
 protected:
  DataType dtype() const { return std::get<0>(GetParam()); }
  ReduceOp op() const { return std::get<1>(GetParam()); }
  // Returns a case in which `choice` varies the factors. Averages are of a number of ranks that is not k, since k may
  // be a part of a tree.
  Case with(int k, std::size_t elements, unsigned choice = 0) const {
    Reduction reduction(op());
    constexpr double kFactors[] = {0.1, -3, 1e-30, 1};
    constexpr std::int64_t kIntegerFactors[] = {-7, 3, 0x1234567890abcdef, 1};
    reduction.factor = kFactors[choice % 4];
    reduction.integer_factor = kIntegerFactors[choice % 4];
    constexpr int kRanks[] = {3, 8, 300, 1};
    return {arithmetic(dtype(), reduction, kRanks[choice % 4]), k, elements};
  }
};

constexpr std::array kKs = {1, 2, 3, 5, 8, 9, 16, 17, 33};

TEST_P(EachReduction, EveryTargetEqualsTheReferenceInEveryForm) {
  unsigned choice = 0;
  for (const int k : kKs) {
    for (const Operands& operands : operands_of(k)) {
      for (const Form target : {Form::Data, Form::Partial}) {
        for (const std::size_t elements : {1u, 2u, 67u, 131u}) {
          Case one = with(k, elements, choice++);
          one.operands = operands;
          one.target = target;
          ASSERT_NO_FATAL_FAILURE(expect_the_reference(one));
        }
      }
    }
  }
}

TEST_P(EachReduction, AnyNumberOfElements) {
  for (const int k : {1, 2, 3, 4, 6, 7, 8, 24}) {
    for (std::size_t elements = 0; elements <= 80; ++elements) {
      ASSERT_NO_FATAL_FAILURE(expect_the_reference(with(k, elements)));
    }
  }
}

TEST_P(EachReduction, TouchesNoByteBeyondItsBuffers) {
  for (const test::Wall wall : {test::Wall::Before, test::Wall::After}) {
    for (const int k : {1, 2, 3, 8}) {
      for (const std::size_t elements : {0u, 1u, 3u, 7u, 15u, 31u, 63u, 67u, 127u, 257u, 513u}) {
        ASSERT_NO_FATAL_FAILURE(expect_the_reference_between_walls(with(k, elements), wall));
      }
    }
  }
}

TEST_P(EachReduction, ManyBlocksOfElements) {
  for (const int k : {1, 3, 8, 17, 100}) {
    for (const std::size_t elements : {1023u, 2100u}) {
      Case one = with(k, elements, static_cast<unsigned>(k));
      ASSERT_NO_FATAL_FAILURE(expect_the_reference(one));
      // A hop of a reproducible tree combines such operands.
      one.operands = {Form::Partial, k / 2, Form::Data};
      ASSERT_NO_FATAL_FAILURE(expect_the_reference(one));
    }
  }
}

TEST_P(EachReduction, TheTargetMayBeAnySourceOfItsForm) {
  const bool one_type = accumulator_of(dtype()) == dtype();
  for (const int k : {1, 2, 3, 8, 9, 33}) {
    for (const Operands& operands : operands_of(k)) {
      for (const Form target : {Form::Data, Form::Partial}) {
        Case one = with(k, 131, static_cast<unsigned>(k));
        one.operands = operands;
        one.target = target;
        for (const int place : {0, k / 2, k - 1}) {
          if (one_type || one.form(place) == target) {
            ASSERT_NO_FATAL_FAILURE(expect_the_reference_in_place(one, place));
          }
        }
      }
    }
  }
}

TEST_P(EachReduction, TheTargetMayBeASourceOfManyBlocks) {
  for (const int k : {1, 3, 8, 17}) ASSERT_NO_FATAL_FAILURE(expect_the_reference_in_place(with(k, 2100), k / 2));
}

TEST_P(EachReduction, ListsNoMoreTargetsThanFitBestFirst) {
  ASSERT_FALSE(all_targets().empty());
  EXPECT_EQ(with(2, 0).arithmetic.combine, all_targets().front().combine);
  CombineTarget one{};
  EXPECT_EQ(combine_targets(&one, 1), 1u);
  EXPECT_EQ(combine_targets(nullptr, 0), 0u);
}

INSTANTIATE_TEST_SUITE_P(Reduce, EachReduction,
                         testing::Combine(testing::ValuesIn(all_dtypes().begin(), all_dtypes().end()),
                                          testing::ValuesIn(all_ops().begin(), all_ops().end())),
                         [](const auto& row) {
                           return std::string(name(std::get<0>(row.param))) + "_" +
                                  std::string(name(std::get<1>(row.param)));
                         });

// Tests conversions of one source, for all values that exist, or nearly all.
class EachNarrowFloat : public testing::TestWithParam<DataType> {
 protected:
  // Expects that every target converts `bytes` like the reference, from one form to the other.
  static void expect_converts(DataType dtype, Form from, const std::vector<std::byte>& bytes) {
    Case one{arithmetic(dtype, ReduceOp::Sum, 1), 1};
    one.operands.messages = from;
    one.target = from == Form::Data ? Form::Partial : Form::Data;
    one.elements = bytes.size() / size_of(one.type(from));
    std::vector<std::byte> expected(one.bytes(one.target));
    const std::byte* sources[] = {bytes.data()};
    combine_reference(one.arithmetic, expected.data(), one.target, sources, 1, one.operands, one.elements);
    for (const CombineTarget& target : all_targets()) {
      std::vector<std::byte> actual(expected.size());
      target.combine(one.arithmetic, actual.data(), one.target, sources, 1, one.operands, one.elements);
      const auto differs = std::mismatch(actual.begin(), actual.end(), expected.begin()).first - actual.begin();
      ASSERT_EQ(actual, expected) << target.name << " " << text(one) << " byte " << differs;
    }
  }
};

TEST_P(EachNarrowFloat, WidensEveryCode) {
  std::vector<std::byte> codes(0x20000);
  for (unsigned code = 0; code < 0x10000; ++code) {
    codes[2 * code] = static_cast<std::byte>(code & 0xff);
    codes[2 * code + 1] = static_cast<std::byte>(code >> 8);
  }
  expect_converts(GetParam(), Form::Data, codes);
}

TEST_P(EachNarrowFloat, NarrowsFloatsOfEveryExponentAndTie) {
  std::vector<std::uint32_t> floats;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      floats.push_back(high << 16 | low);
    }
  }
  std::vector<std::byte> bytes(floats.size() * 4);
  std::memcpy(bytes.data(), floats.data(), bytes.size());
  expect_converts(GetParam(), Form::Partial, bytes);
}

INSTANTIATE_TEST_SUITE_P(Reduce, EachNarrowFloat,
                         testing::Values(DataType::Float16, DataType::BFloat16, DataType::Float8E4M3,
                                         DataType::Float8E5M2),
                         [](const auto& row) { return std::string(name(row.param)); });

// Combines one element from each of the many `values`, which have the same dtype, and returns the result.
template <typename T>
T combine_one(const Reduction& reduction, int ranks, const std::vector<T>& values, Operands operands = {}) {
  std::vector<const std::byte*> sources;
  for (const T& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  T result{};
  const Arithmetic by = arithmetic(dtype_of<T>, reduction, ranks);
  by.combine(by, reinterpret_cast<std::byte*>(&result), Form::Data, sources.data(), static_cast<int>(values.size()),
             operands, 1);
  return result;
}

std::uint32_t sum_bits(const std::vector<std::uint32_t>& bits) {
  std::vector<float> values;
  for (const std::uint32_t one : bits) values.push_back(std::bit_cast<float>(one));
  return std::bit_cast<std::uint32_t>(combine_one(ReduceOp::Sum, 1, values));
}

TEST(ReduceFloat, SumsInTheCanonicalTree) {
  const auto sum = [](const std::vector<float>& values) { return combine_one(ReduceOp::Sum, 1, values); };
  // The value is 2^24, where a sum with one loses the one.
  const float big = 16777216.0f;
  // (2^24 + 1) + (-2^24 + 1) is 2^24 + (-2^24 + 1). A sum from left to right gives 1 as well, so the order puts the
  // ones together.
  EXPECT_EQ(sum({big, 1, 1, -big}), (big + 1.0f) + (1.0f - big));
  // With three sources, the pair (0, 1) is one leaf and source 2 is the other.
  EXPECT_EQ(sum({1, 1, big}), big + 2.0f);
  EXPECT_EQ(sum({big, 1, 1}), big);
  // With six sources, the pairs (0, 1) and (2, 3) are leaves beside 4 and 5.
  EXPECT_EQ(sum({big, 1, 1, 1, 1, 1}), (big + 2.0f) + 2.0f);
}

TEST(ReduceFloat, ResultsThatAreNanAreCanonical) {
  EXPECT_EQ(sum_bits({0xffc12345, 0x3f800000}), 0x7fc00000u);
  EXPECT_EQ(sum_bits({0x3f800000, 0x7f812345}), 0x7fc00000u);
  EXPECT_EQ(sum_bits({0x7f800000, 0xff800000}), 0x7fc00000u);
}

TEST(ReduceFloat, OneSourceIsCopiedWithItsNanBits) { EXPECT_EQ(sum_bits({0xff812345}), 0xff812345u); }

TEST(ReduceFloat, KeepsSubnormalsAndSignedZeros) {
  EXPECT_EQ(sum_bits({0x00000001, 0x00000001}), 0x00000002u);
  EXPECT_EQ(sum_bits({0x80000000, 0x80000000}), 0x80000000u);
  EXPECT_EQ(sum_bits({0x80000000, 0x00000000}), 0x00000000u);
}

TEST(ReduceFloat, NarrowSumsRoundOnce) {
  // 1 + 2^-8 + 2^-8 is 1 + 2^-7, the next bfloat16. With a rounding after each sum it would stay 1.
  EXPECT_EQ(combine_one<BFloat16>(ReduceOp::Sum, 1, {{0x3f80}, {0x3b80}, {0x3b80}}).bits, 0x3f81);
  EXPECT_EQ(combine_one<Float16>(ReduceOp::Sum, 1, {{0x7bff}, {0x7bff}}).bits, 0x7c00);  // overflows
  EXPECT_EQ(combine_one<Float8E4M3>(ReduceOp::Sum, 1, {{0x7e}, {0x7e}}).bits, 0x7e);     // saturates
  EXPECT_EQ(combine_one<Float8E5M2>(ReduceOp::Avg, 2, {{0x7b}, {0x7b}}).bits, 0x7b);     // the sum is a float
  EXPECT_EQ(combine_one<Float16>(ReduceOp::Max, 1, {{0xfc01}, {0x3c00}}).bits, 0x7e00);  // NaN
  EXPECT_EQ(combine_one<Float16>(ReduceOp::Min, 1, {{0x0000}, {0x8000}}).bits, 0x8000);  // -0 < +0
}

TEST(ReduceInt, SumsWrap) {
  constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
  EXPECT_EQ(combine_one<std::int32_t>(ReduceOp::Sum, 1, {kLowest, -1}), std::numeric_limits<std::int32_t>::max());
}

TEST(ReduceInt, AveragesTruncateTowardZero) {
  EXPECT_EQ(combine_one<std::int32_t>(ReduceOp::Avg, 2, {-4, -3}), -3);
  EXPECT_EQ(combine_one<std::uint8_t>(ReduceOp::Avg, 2, {200, 101}), 22);  // 301 wraps to 45
}

TEST(Reduce, OnlyDataIsPremultiplied) {
  const Reduction tenfold = Reduction::premultiplied_sum(std::int64_t{10});
  EXPECT_EQ(combine_one<std::int64_t>(tenfold, 2, {3, 4}, {Form::Partial, 0, Form::Data}), 34);
  EXPECT_EQ(combine_one<double>(Reduction::premultiplied_sum(0.5), 2, {3, 4}, {Form::Partial, 1, Form::Data}), 5);
}

}  // namespace
}  // namespace wreath
