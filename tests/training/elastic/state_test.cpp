// The plan says which rank sends the training state to which, and the state arrives.
#include "training/elastic/state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/local_ranks.hpp"

namespace wreath::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

StatePlan plan_of(const std::vector<Holding>& holdings, const std::vector<int>& needs) {
  return plan_state(holdings, needs).value();
}

TEST(StatePlan, TakesTheSurvivorThatHasSeenMostSteps) {
  const StatePlan plan = plan_of({{0, 7}, {0, 8}, {0, 7}}, {0, 0, 0});
  EXPECT_EQ(plan.steps, 8);
  EXPECT_THAT(plan.sources, ElementsAre(1, 1, 1));
}

TEST(StatePlan, DividesTheSendingAndLetsWhoHasItKeepIt) {
  const StatePlan plan = plan_of({{0, 5}, {0, 5}, {}, {}, {}, {-1, 9}}, {0, 0, 0, 0, 0, -1});
  EXPECT_THAT(plan.sources, ElementsAre(0, 1, 0, 1, 0, -1));
}

TEST(StatePlan, OfSeveralPartsTakesTheStepsThatAllHave) {
  // The rank that held part 1 after 8 steps is gone.
  const StatePlan plan = plan_of({{0, 8}, {1, 7}, {0, 7}, {1, 7}}, {0, 1});
  EXPECT_EQ(plan.steps, 7);
  EXPECT_THAT(plan.sources, ElementsAre(2, 1));
}

// Rank 0 of a mesh dp2 x tp2 has died in the last call of a step. Two ranks have done the step, and one has not.
TEST(StatePlan, CountsTheStepThatARankCanCompleteOnceAnotherHasDoneIt) {
  const StatePlan plan = plan_of({{1, 5}, {0, 4, true}, {1, 5}}, {0, 1, -1});
  EXPECT_EQ(plan.steps, 5);
  EXPECT_THAT(plan.sources, ElementsAre(1, 0, -1));
  EXPECT_EQ(plan_of({{1, 4, true}, {0, 4, true}}, {1, 0}).steps, 4) << "no rank has the loss of the next step";
  EXPECT_FALSE(plan_state(std::vector<Holding>{{1, 5}, {0, 3, true}}, std::vector<int>{0, 1}));
}

TEST(StatePlan, MovesPartsToRanksThatHadOthers) {
  const StatePlan plan = plan_of({{1, 4}, {0, 4}, {1, 4}}, {0, 1, -1});
  EXPECT_THAT(plan.sources, ElementsAre(1, 0, -1)) << "rank 2 has part 1, too, and is asked second";
}

TEST(StatePlan, NamesThePartThatNobodyHolds) {
  const auto none = plan_state(std::vector<Holding>{{0, 8}, {-1, 8}}, std::vector<int>{0, 1});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Unavailable);
  EXPECT_THAT(none.error().message, HasSubstr("part 1 of the model after 8 steps"));
  EXPECT_FALSE(plan_state(std::vector<Holding>{{}, {}}, std::vector<int>{0, 0}));
  EXPECT_FALSE(plan_state(std::vector<Holding>{{0, 3}, {1, 2}}, std::vector<int>{0, 1})) << "of no common step";
}

TEST(State, ComesFromWhoThePlanNames) {
  constexpr std::size_t kValues = 100'000;
  const StatePlan plan = plan_of({{1, 4}, {0, 4}, {1, 4}, {}}, {0, 1, 1, 0});
  wreath::test::LocalRanks ranks(4, {});
  ranks.run([&](Communicator& world) {
    const int rank = world.rank();
    const std::vector<float> held(rank == 3 ? 0 : kValues, static_cast<float>(rank + 1));
    const int source = plan.sources[static_cast<std::size_t>(rank)];
    std::vector<float> received(source == rank ? 0 : kValues);
    ASSERT_TRUE(move_state(world, plan, held, received));
    for (const float value : received) ASSERT_EQ(value, static_cast<float>(source + 1));
  });
}

TEST(State, OfAnotherSizeIsRefused) {
  std::vector<float> weights(6, 1.0f);
  std::vector<float> moments(6, 2.0f);
  const Piece piece{nullptr, 0, weights, {}};
  const Shard shard{{&piece, 1}, {{"exp_avg", moments}}};
  std::vector<float> copy = copy_of(shard);
  EXPECT_THAT(copy, ElementsAre(1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2));
  for (float& value : copy) value += 5;
  ASSERT_TRUE(copy_into(shard, copy));
  EXPECT_EQ(weights.back(), 6.0f);
  EXPECT_EQ(moments.back(), 7.0f);
  copy.pop_back();
  const Status refused = copy_into(shard, copy);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("11 values does not fit a shard of 12"));
}

}  // namespace
}  // namespace wreath::training
