// The straight small-message code, ranks taking turns in one thread.
#include "src/executor/small.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace wreath {
namespace {

struct Small {
  explicit Small(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) areas.emplace_back(kSmallAreaBytes + 64);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<const std::byte*> seen;
      for (auto& area : areas) seen.push_back(aligned(area));
      exchanges.emplace_back(rank, seen, aligned(areas[static_cast<std::size_t>(rank)]));
    }
  }
  static std::byte* aligned(std::vector<std::byte>& area) {
    return area.data() + (64 - reinterpret_cast<std::uintptr_t>(area.data()) % 64) % 64;
  }
  std::vector<std::vector<std::byte>> areas;
  std::vector<SmallExchange> exchanges;
};

SmallCall call_of(const std::vector<float>& input, std::vector<float>& output, std::uint32_t signature) {
  return {reinterpret_cast<const std::byte*>(input.data()),
          reinterpret_cast<std::byte*>(output.data()),
          input.size(),
          input.size() * sizeof(float),
          arithmetic(DataType::Float32, ReduceOp::Sum, 3),
          signature};
}

TEST(SmallExchange, SumsEverySizeWhileRanksRunAhead) {
  constexpr int kRanks = 3;
  Small small(kRanks);
  std::mt19937_64 random(3);
  std::vector<std::size_t> sizes;
  for (std::size_t size = 1; size <= 40; ++size) sizes.push_back(size);
  for (const std::size_t size : {255U, 256U, 257U, 1000U, 4096U}) sizes.push_back(size);
  std::vector<std::size_t> at(kRanks, 0);
  std::vector<std::vector<float>> inputs(kRanks);
  std::vector<std::vector<float>> outputs(kRanks);
  const auto begin = [&](std::size_t rank) {
    inputs[rank].assign(sizes[at[rank]], static_cast<float>(rank + 1 + 10 * at[rank]));
    outputs[rank].assign(sizes[at[rank]], -1.0F);
    small.exchanges[rank].start(call_of(inputs[rank], outputs[rank], static_cast<std::uint32_t>(at[rank])));
  };
  for (std::size_t rank = 0; rank < kRanks; ++rank) begin(rank);
  for (int turn = 0; *std::min_element(at.begin(), at.end()) < sizes.size(); ++turn) {
    ASSERT_LT(turn, 100'000) << "a message was lost";
    const std::size_t rank = random() % kRanks;
    if (at[rank] == sizes.size() || small.exchanges[rank].run() != Advance::Done) continue;
    const auto sum = static_cast<float>(1 + 2 + 3 + 3 * 10 * at[rank]);
    for (const float value : outputs[rank]) ASSERT_EQ(value, sum) << "call " << at[rank] << " of " << sizes[at[rank]];
    if (++at[rank] < sizes.size()) begin(rank);
  }
}

TEST(SmallExchange, NamesThePeerInAnotherCall) {
  Small small(3);
  const std::vector<float> input(5, 1.0F);
  std::vector<float> output(5);
  small.exchanges[0].start(call_of(input, output, 17));
  small.exchanges[1].start(call_of(input, output, 17));
  EXPECT_EQ(small.exchanges[0].run(), Advance::Blocked);
  EXPECT_EQ(small.exchanges[0].waiting_for(), 2);
  small.exchanges[2].start(call_of(input, output, 18));
  EXPECT_EQ(small.exchanges[0].run(), Advance::Failed);
  EXPECT_EQ(small.exchanges[0].waiting_for(), 2);
}

}  // namespace
}  // namespace wreath
