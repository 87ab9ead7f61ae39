// The size of an output, its reader and its memory decide how it is written.
#include "src/engine/output_rules.hpp"

#include <gtest/gtest.h>

namespace wreath {
namespace {

constexpr StreamedBytes kLeastStreamed{.output = 100, .read_output = 400};

TunerContext with_wire(std::string_view wire) {
  TunerContext context;
  context.wire = wire;
  return context;
}

TEST(StreamedOutput, BeginsAtTheSizesOfTheMachine) {
  const TunerContext mapped = with_wire("");
  EXPECT_EQ(streamed_of({99, false}, kLeastStreamed, mapped), Streamed::Nothing);
  EXPECT_EQ(streamed_of({100, false}, kLeastStreamed, mapped), Streamed::All);
  EXPECT_EQ(streamed_of({399, true}, kLeastStreamed, mapped), Streamed::Nothing)
      << "what was read is in the last cache";
  EXPECT_EQ(streamed_of({400, true}, kLeastStreamed, mapped), Streamed::All);
}

TEST(StreamedOutput, IsARanksOwnDataOverWires) {
  EXPECT_EQ(streamed_of({99, false}, kLeastStreamed, with_wire("tcp")), Streamed::Nothing);
  EXPECT_EQ(streamed_of({100, false}, kLeastStreamed, with_wire("tcp")), Streamed::Own);
}

TEST(ReadOutput, IsThatOfAnAllReduceInPlace) {
  std::byte memory[2];
  Call call{.collective = Collective::AllReduce, .input = memory, .output = memory};
  EXPECT_TRUE(reads_output(call));
  call.output = memory + 1;
  EXPECT_FALSE(reads_output(call));
  call.output = memory;
  call.collective = Collective::AllGather;
  EXPECT_FALSE(reads_output(call)) << "it reads its own block of it";
}

class SumsFirst : public testing::Test {
 protected:
  SumsFirst() {
    context_.ping_pong = PairSizes{1, 1};
    state_.region[static_cast<std::size_t>(Buffer::Output)] = 3;
  }
  LaneOrder order(Collective collective = Collective::AllReduce) const {
    return order_of(collective, state_, context_);
  }

  TunerContext context_ = with_wire("");
  OperationState state_;
};

TEST_F(SumsFirst, WherePeersReadResultsInPlace) {
  EXPECT_EQ(order(), LaneOrder::Lowest);
  state_.region[static_cast<std::size_t>(Buffer::Output)] = 0;
  EXPECT_EQ(order(), LaneOrder::Turns) << "results are staged";
}

TEST_F(SumsFirst, NotInCallsWithoutResultsOfSums) { EXPECT_EQ(order(Collective::AllGather), LaneOrder::Turns); }

TEST_F(SumsFirst, NotPastTheCaches) {
  state_.streamed = Streamed::All;
  EXPECT_EQ(order(), LaneOrder::Turns);
}

TEST_F(SumsFirst, NotBetweenOtherRanks) {
  context_.ping_pong.reset();
  EXPECT_EQ(order(), LaneOrder::Turns);
}

}  // namespace
}  // namespace wreath
