// Every compiled-in instruction set that runs here is held, bit for bit, to the scalar reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"

namespace wreath {
namespace {

constexpr std::array<std::uint32_t, 20> kFloatBits = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000,  // 0, -0, 1, -1
    0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff,  // infinities, largest
    0x00000001, 0x80000001, 0x007fffff, 0x00800000,  // subnormals, smallest normal
    0x7fc00000, 0xffc00000, 0x7fc12345, 0xff812345,  // quiet and signalling NaN with payloads
    0x7f800001, 0x33800000, 0x3f800001, 0x4b800000,  // 2^-24, 1 + ulp, 2^24: rounding to even
};
constexpr std::array<std::uint32_t, 6> kIntBits = {0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 0x80000001};

std::vector<ReduceTarget> targets_for(DataType dtype) {
  std::array<ReduceTarget, 16> found{};
  const std::size_t count = reduce_targets(dtype, ReduceOp::Sum, found.data(), found.size());
  return {found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::uint32_t draw(DataType dtype, std::mt19937& random) {
  if (random() % 2 == 0) return static_cast<std::uint32_t>(random());
  if (dtype == DataType::Float32) return kFloatBits[random() % kFloatBits.size()];
  return kIntBits[random() % kIntBits.size()];
}

// k sources of `elements` elements, each at its own misalignment in its own memory.
class Inputs {
 public:
  Inputs(DataType dtype, int k, std::size_t elements, bool aligned) : memory_(static_cast<std::size_t>(k)) {
    std::mt19937 random(static_cast<unsigned>(k) * 1000u + static_cast<unsigned>(elements));
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const std::size_t offset = aligned ? 0 : (i * 3 + 1) % 17;
      memory_[i].resize(offset + elements * 4 + 1);  // never null
      for (std::size_t e = 0; e < elements; ++e) {
        const std::uint32_t bits = draw(dtype, random);
        std::memcpy(memory_[i].data() + offset + 4 * e, &bits, 4);
      }
      sources_.push_back(memory_[i].data() + offset);
    }
  }
  const std::byte* const* sources() const { return sources_.data(); }
  std::byte* writable(std::size_t i) { return memory_[i].data() + (sources_[i] - memory_[i].data()); }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<const std::byte*> sources_;
};

void expect_equal_to_reference(const ReduceTarget& target, DataType dtype, int k, std::size_t elements) {
  const Inputs inputs(dtype, k, elements, elements % 3 == 0);
  constexpr std::size_t kOffset = 5;
  constexpr std::byte kGuard{0xa5};
  std::vector<std::byte> expected(kOffset + 4 * elements + 64, kGuard);
  std::vector<std::byte> actual = expected;
  reduce_reference(dtype, ReduceOp::Sum, expected.data() + kOffset, inputs.sources(), k, elements);
  target.kernel(actual.data() + kOffset, inputs.sources(), k, elements);
  ASSERT_EQ(actual, expected) << target.name << " " << name(dtype) << " k " << k << " elements " << elements;
}

class EachDataType : public testing::TestWithParam<DataType> {};

TEST_P(EachDataType, EveryTargetEqualsTheReferenceOnSpecialValues) {
  std::vector<int> ks(17);
  std::iota(ks.begin(), ks.end(), 1);
  ks.push_back(24);
  ks.push_back(64);
  ks.push_back(100);
  for (const ReduceTarget& target : targets_for(GetParam())) {
    for (const int k : ks) {
      for (std::size_t elements = 0; elements <= 130; ++elements) {
        ASSERT_NO_FATAL_FAILURE(expect_equal_to_reference(target, GetParam(), k, elements));
      }
      ASSERT_NO_FATAL_FAILURE(expect_equal_to_reference(target, GetParam(), k, 1023));
    }
  }
}

TEST_P(EachDataType, TheTargetMayBeAnySource) {
  for (const ReduceTarget& target : targets_for(GetParam())) {
    for (const int k : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33}) {
      for (int place = 0; place < k; ++place) {
        constexpr std::size_t kElements = 777;
        Inputs inputs(GetParam(), k, kElements, false);
        std::vector<std::byte> expected(4 * kElements);
        reduce_reference(GetParam(), ReduceOp::Sum, expected.data(), inputs.sources(), k, kElements);
        std::byte* output = inputs.writable(static_cast<std::size_t>(place));
        target.kernel(output, inputs.sources(), k, kElements);
        ASSERT_EQ(0, std::memcmp(output, expected.data(), expected.size()))
            << target.name << " k " << k << " " << place;
      }
    }
  }
}

TEST_P(EachDataType, TheBestKernelIsTheFirstTarget) {
  ASSERT_FALSE(targets_for(GetParam()).empty());
  EXPECT_EQ(reduce_kernel(GetParam(), ReduceOp::Sum), targets_for(GetParam()).front().kernel);
}

TEST_P(EachDataType, ListsNoMoreTargetsThanFit) {
  ReduceTarget one{};
  EXPECT_EQ(reduce_targets(GetParam(), ReduceOp::Sum, &one, 1), 1u);
  EXPECT_EQ(reduce_targets(GetParam(), ReduceOp::Sum, nullptr, 0), 0u);
}

INSTANTIATE_TEST_SUITE_P(Reduce, EachDataType, testing::ValuesIn(all_dtypes().begin(), all_dtypes().end()),
                         [](const auto& row) { return std::string(name(row.param)); });

std::uint32_t sum_bits(const std::vector<std::uint32_t>& values) {
  std::vector<const std::byte*> sources;
  for (const std::uint32_t& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  std::uint32_t result = 0;
  reduce_kernel(DataType::Float32, ReduceOp::Sum)(reinterpret_cast<std::byte*>(&result), sources.data(),
                                                  static_cast<int>(values.size()), 1);
  return result;
}

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(ReduceFloat, SumsInTheCanonicalTree) {
  const float big = 16777216.0f;  // 2^24: adding one to it is lost
  // (2^24 + 1) + (-2^24 + 1) = 2^24 + (-2^24 + 1): left to right would give 1 as well, so order the ones together.
  EXPECT_EQ(sum_bits({bits(big), bits(1), bits(1), bits(-big)}), bits((big + 1.0f) + (1.0f - big)));
  // Three sources: the pair (0, 1) is one leaf, source 2 the other.
  EXPECT_EQ(sum_bits({bits(1), bits(1), bits(big)}), bits(big + 2.0f));
  EXPECT_EQ(sum_bits({bits(big), bits(1), bits(1)}), bits(big));
  // Six: pairs (0, 1), (2, 3) are leaves beside 4 and 5.
  EXPECT_EQ(sum_bits({bits(big), bits(1), bits(1), bits(1), bits(1), bits(1)}), bits((big + 2.0f) + 2.0f));
}

TEST(ReduceFloat, ResultsThatAreNanAreCanonical) {
  EXPECT_EQ(sum_bits({0xffc12345, bits(1)}), 0x7fc00000u);
  EXPECT_EQ(sum_bits({bits(1), 0x7f812345}), 0x7fc00000u);
  EXPECT_EQ(sum_bits({0x7f800000, 0xff800000}), 0x7fc00000u);
}

TEST(ReduceFloat, OneSourceIsCopiedWithItsNanBits) { EXPECT_EQ(sum_bits({0xff812345}), 0xff812345u); }

TEST(ReduceFloat, KeepsSubnormalsAndSignedZeros) {
  EXPECT_EQ(sum_bits({0x00000001, 0x00000001}), 0x00000002u);
  EXPECT_EQ(sum_bits({0x80000000, 0x80000000}), 0x80000000u);
  EXPECT_EQ(sum_bits({0x80000000, 0x00000000}), 0x00000000u);
}

TEST(ReduceInt, SumsWrap) {
  const std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  const std::int32_t minus_one = -1;
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(&lowest),
                                reinterpret_cast<const std::byte*>(&minus_one)};
  std::int32_t result = 0;
  reduce_kernel(DataType::Int32, ReduceOp::Sum)(reinterpret_cast<std::byte*>(&result), sources, 2, 1);
  EXPECT_EQ(result, std::numeric_limits<std::int32_t>::max());
}

}  // namespace
}  // namespace wreath
