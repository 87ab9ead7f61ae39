// What the builder keeps of an algorithm's words, and what the registry offers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "wreath/algorithm.hpp"

namespace wreath {
namespace {

constexpr Chunk kInput0{Buffer::Input, 0};
constexpr Chunk kOutput1{Buffer::Output, 1};

TEST(Schedule, MakesLanesDensely) {
  Schedule schedule(2);
  Lane& third = schedule.lane(2);
  Lane& first = schedule.lane();
  EXPECT_EQ(schedule.lanes().size(), 3u);
  EXPECT_EQ(first.number(), 0);
  EXPECT_EQ(third.number(), 2);
  schedule.lane(9);
  third.copy(kInput0, kOutput1);
  EXPECT_EQ(schedule.lanes()[2].lines().size(), 1u) << "references to lanes stay valid";
}

TEST(Schedule, ReceivesFromTheSameLaneUnlessTold) {
  Schedule schedule(2);
  Lane& lane = schedule.lane(1);
  lane.recv(3, kOutput1);
  lane.recv_reduce(3, kInput0, kOutput1, 0);
  EXPECT_EQ(lane.lines()[0].from_lane, 1);
  EXPECT_EQ(lane.lines()[1].from_lane, 0);
}

TEST(Schedule, KeepsPeersAscendingAndStagingAsSaid) {
  Schedule schedule(2);
  Lane& lane = schedule.lane();
  lane.send_all({5, 1, 3}, kInput0);
  lane.send_all_staged({2, 0}, kInput0);
  lane.load_reduce({4, 2}, kInput0, kOutput1);
  EXPECT_THAT(lane.lines()[0].peers, testing::ElementsAre(1, 3, 5));
  EXPECT_FALSE(lane.lines()[0].staged);
  EXPECT_THAT(lane.lines()[1].peers, testing::ElementsAre(0, 2));
  EXPECT_TRUE(lane.lines()[1].staged);
  EXPECT_THAT(lane.lines()[2].peers, testing::ElementsAre(2, 4));
}

TEST(Schedule, CountsScratchParts) {
  Schedule schedule(4);
  EXPECT_EQ(schedule.scratch_parts(), 0u);
  schedule.lane(1).copy(kInput0, {Buffer::Scratch, 2});
  EXPECT_EQ(schedule.scratch_parts(), 3u);
}

TEST(Registry, FindsEveryRowByItsName) {
  std::set<std::string_view> names;
  for (const Algorithm& row : algorithms()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
    EXPECT_EQ(find_algorithm(row.collective, row.name), &row);
    EXPECT_GE(row.minimum_resident_lanes, 1);
  }
  EXPECT_EQ(find_algorithm(Collective::AllReduce, "no such"), nullptr);
}

TEST(Registry, OneRankCopies) {
  for (const Algorithm& row : algorithms()) {
    const Schedule schedule = row.build({row.collective, 1}, 0);
    ASSERT_EQ(schedule.lanes().size(), 1u) << row.name;
    ASSERT_EQ(schedule.lanes()[0].lines().size(), 1u) << row.name;
    EXPECT_EQ(schedule.lanes()[0].lines()[0].word, Word::Copy) << row.name;
  }
}

}  // namespace
}  // namespace wreath
