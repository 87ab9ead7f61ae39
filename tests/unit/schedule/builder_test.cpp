// The builder keeps the lines of an algorithm, and the registry offers its rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/schedule/geometry.hpp"
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
  lane.recv_reduce(3, kInput0, kOutput1, {.lane = 0, .form = Form::Partial});
  EXPECT_EQ(lane.lines()[0].from_lane, 1);
  EXPECT_EQ(lane.lines()[0].form, Form::Data);
  EXPECT_EQ(lane.lines()[1].from_lane, 0);
  EXPECT_EQ(lane.lines()[1].form, Form::Partial);
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

TEST(Schedule, KeepsSeveralChunksOfAMessageInOrder) {
  Schedule schedule(4);
  Lane& lane = schedule.lane();
  lane.recv(1, std::vector<Chunk>{{Buffer::Output, 3}, {Buffer::Output, 0}});
  EXPECT_THAT(lane.lines()[0].target, testing::ElementsAre(Chunk{Buffer::Output, 3}, Chunk{Buffer::Output, 0}));
  EXPECT_TRUE(lane.lines()[0].source.empty());
}

TEST(Schedule, CountsSlotsOfScratchAndPartial) {
  Schedule schedule(4);
  EXPECT_EQ(schedule.slots(Buffer::Scratch), 0u);
  schedule.lane(1).copy(kInput0, Chunk{Buffer::Scratch, 0, 2});
  schedule.lane(0).recv_reduce(1, kInput0, Chunk{Buffer::Partial, 3, 0});
  EXPECT_EQ(schedule.slots(Buffer::Scratch), 3u);
  EXPECT_EQ(schedule.slots(Buffer::Partial), 1u);
  EXPECT_EQ(schedule.slots(Buffer::Input), 0u);
}

TEST(Registry, StatesTraitsThatFitTheCollective) {
  for (const Algorithm& row : algorithms()) {
    EXPECT_GE(row.minimum_resident_lanes, 1);
    EXPECT_TRUE(reduces(row.collective) || row.order == Order::Canonical) << row.name << " sums nothing";
    EXPECT_TRUE(reduces(row.collective) || (row.traits & kPartialMessages) == 0) << row.name << " has no sums";
    EXPECT_TRUE(moves_blocks(row.collective) || (row.traits & kVarying) == 0) << row.name << " has no blocks";
  }
  EXPECT_EQ(find_algorithm(Collective::AllReduce, "no such"), nullptr);
}

TEST(Registry, OneRankMovesItsOwnDataAndSendsNothing) {
  for (const Algorithm& row : algorithms()) {
    const Schedule schedule = row.build({row.collective, 1}, 0);
    for (const Lane& lane : schedule.lanes()) {
      for (const Line& line : lane.lines()) EXPECT_EQ(line.word, Word::Copy) << name(row.collective) << " " << row.name;
    }
  }
}

}  // namespace
}  // namespace wreath
