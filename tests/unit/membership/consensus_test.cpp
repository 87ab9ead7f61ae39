// Tests the survivors' agreement: its rules one by one, and the model of all runs with four ranks.
#include "src/membership/consensus.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "tests/support/processes.hpp"
#include "tests/unit/membership/consensus_model.hpp"

namespace wreath::consensus {
namespace {

using test::Model;
using test::Set;
using test::Setting;

Model walk(const Setting& setting) {
  Model model(setting);
  model.walk();
  EXPECT_EQ(model.wrong(), "") << "victims " << setting.victims << ", side " << setting.side << ", may refuse "
                               << setting.may_refuse;
  EXPECT_GT(model.ends(), 0u);
  return model;
}

TEST(ConsensusModel, WithoutDeathsAllDecide) { EXPECT_EQ(walk({}).refused_ends(), 0u); }

TEST(ConsensusModel, OneDeathAtAnyStepEndsWithOneSetOfSurvivors) {
  for (std::uint32_t victim = 0; victim < test::kRanks; victim += testing_support::case_step()) {
    EXPECT_EQ(walk({.victims = 1U << victim}).refused_ends(), 0u);
  }
}

TEST(ConsensusModel, TwoDeathsAtAnySteps) {
  for (Set victims = 0; victims < 1U << test::kRanks; ++victims) {
    if (std::popcount(victims) != 2) continue;
    EXPECT_EQ(walk({.victims = victims}).refused_ends(), 0u);
    if (testing_support::kSanitized) break;  // the other pairs make the same calls
  }
}

TEST(ConsensusModel, AFailedAttemptIsAnErrorOfAll) {
  EXPECT_GT(walk({.may_refuse = 15}).refused_ends(), 0u);
  EXPECT_GT(walk({.victims = 1, .may_refuse = 15}).refused_ends(), 0u);
}

TEST(ConsensusModel, OnlyTheLargerSideOfAPartitionGoesOn) {
  const std::vector<Set> sides =
      testing_support::takes_every_case() ? std::vector<Set>{1, 2, 4, 8, 3, 6, 12} : std::vector<Set>{1, 12};
  for (const Set side : sides) EXPECT_GT(walk({.side = side}).refused_ends(), 0u);
}

TEST(ConsensusModel, WhoLeftAfterTheDecisionIsNotTakenForDead) {
  EXPECT_EQ(walk({.leavers = 15}).refused_ends(), 0u);
  EXPECT_EQ(walk({.victims = 1, .leavers = 15}).refused_ends(), 0u);
  EXPECT_EQ(walk({.victims = 8, .leavers = 15}).refused_ends(), 0u);
}

// Each setting has millions of states, and may be run beside the others.
class WrongSuspicions : public ::testing::TestWithParam<Setting> {};

TEST_P(WrongSuspicions, NeverLeadToTwoSets) {
  if (!testing_support::takes_every_case()) GTEST_SKIP() << "takes minutes: run it with WREATH_TEST_LONG=1";
  walk(GetParam());
}

INSTANTIATE_TEST_SUITE_P(ConsensusModel, WrongSuspicions,
                         ::testing::Values(Setting{.side = 1, .at_once = false}, Setting{.side = 12, .at_once = false},
                                           Setting{.side = 8, .at_once = false, .leavers = 4}),
                         [](const auto& row) {
                           return "side" + std::to_string(row.param.side) + "leavers" +
                                  std::to_string(row.param.leavers);
                         });

// ---- rules ----

View view_of(std::initializer_list<Fate> fates) { return fates; }

TEST(Consensus, TheLastOneGoesOnAlone) {
  Consensus member(1, 2);
  member.start();
  EXPECT_FALSE(member.attempting());
  member.lose(0, Fate::Gone);
  ASSERT_TRUE(member.attempting());
  member.joined(view_of({Fate::Gone, Fate::Alive}));
  EXPECT_EQ(member.outcome(), Consensus::Outcome::Decided);
}

TEST(Consensus, OneOfTwoThatLosesTheLowerOneFromSightIsRefused) {
  Consensus member(1, 2);
  member.start();
  member.lose(0, Fate::Unreachable);
  EXPECT_EQ(member.outcome(), Consensus::Outcome::Refused);
  EXPECT_EQ(member.error().code, ErrorCode::PeerLost);
  EXPECT_EQ(member.error().failed_rank, 0);
  EXPECT_NE(member.error().message.find("rank 0"), std::string::npos);
}

TEST(Consensus, AnAttemptOfAnEarlierViewCountsNoMore) {
  Consensus member(0, 3);
  member.start();
  const View before = member.view();
  for (const Rank peer : {1, 2}) member.hear(peer, {Statement::Kind::Holds, before, {}, {}, -1, {}});
  ASSERT_TRUE(member.attempting());
  member.lose(2, Fate::Gone);
  EXPECT_FALSE(member.attempting());
  member.joined(before);
  member.refuse(before, {ErrorCode::System, "too late", 0});
  EXPECT_EQ(member.outcome(), Consensus::Outcome::Open);
  EXPECT_TRUE(member.awaits(1));
  EXPECT_FALSE(member.awaits(2));
}

TEST(Consensus, WhomTheOthersLeftOutHearsOfIt) {
  Consensus member(2, 3);
  member.start();
  member.hear(0, {Statement::Kind::Decided, view_of({Fate::Alive, Fate::Alive, Fate::Unreachable}), {}, {}, -1, {}});
  EXPECT_EQ(member.outcome(), Consensus::Outcome::Refused);
  EXPECT_EQ(member.error().failed_rank, 2);
}

Statement holds(View view, View joined = {}) {
  return {Statement::Kind::Holds, std::move(view), std::move(joined), {}, -1, {}};
}

TEST(Consensus, ADecisionIsHeardFromARankOutOfReach) {
  Consensus member(3, 4);
  member.start();
  const View without = view_of({Fate::Alive, Fate::Alive, Fate::Alive, Fate::Unreachable});
  member.hear(0, holds(without));
  ASSERT_EQ(member.outcome(), Consensus::Outcome::Open);
  member.hear(0, {Statement::Kind::Decided, without, {}, {}, -1, {}});
  EXPECT_EQ(member.outcome(), Consensus::Outcome::Refused);
  EXPECT_EQ(member.error().code, ErrorCode::PeerLost);
  EXPECT_EQ(member.error().failed_rank, 3);
}

// The member would otherwise be the last one in the end, and go on beside the others.
TEST(Consensus, TheEndOfWhoLeftThisMemberOutCountsForNothing) {
  Consensus member(3, 4);
  member.start();
  for (const Rank peer : {0, 1, 2}) {
    member.hear(peer, holds(view_of({Fate::Alive, Fate::Alive, Fate::Alive, Fate::Unreachable})));
    member.lose(peer, Fate::Gone);
  }
  EXPECT_EQ(member.outcome(), Consensus::Outcome::Refused);
  EXPECT_EQ(member.error().code, ErrorCode::PeerLost);
}

TEST(Consensus, AViewOfAnotherSizeIsNotHeard) {
  Consensus member(0, 2);
  member.start();
  member.hear(1, {Statement::Kind::Decided, View(5, Fate::Alive), {}, {}, -1, {}});
  member.hear(1, {Statement::Kind::Holds, View(1, Fate::Alive), {}, {}, -1, {}});
  EXPECT_EQ(member.outcome(), Consensus::Outcome::Open);
  EXPECT_TRUE(member.awaits(1));
}

TEST(Consensus, NamesTheFailed) {
  EXPECT_EQ(failed_ranks(View(3, Fate::Alive)), "no rank");
  EXPECT_EQ(failed_ranks(view_of({Fate::Alive, Fate::Gone, Fate::Unreachable})), "ranks 1, 2");
}

}  // namespace
}  // namespace wreath::consensus
