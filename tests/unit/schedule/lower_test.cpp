// Each pass: fusing, dead targets, data lanes, and the errors of malformed schedules.
#include "src/schedule/lower.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/schedule/show.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {
namespace {

constexpr Chunk input(std::uint32_t part) { return {Buffer::Input, part}; }
constexpr Chunk output(std::uint32_t part) { return {Buffer::Output, part}; }
constexpr Chunk scratch(std::uint32_t part) { return {Buffer::Scratch, part}; }

std::vector<StepOp> ops(const Lowered& program) {
  std::vector<StepOp> list;
  for (const Step& step : program.steps) list.push_back(step.op);
  return list;
}

Lowered lowered(const Schedule& schedule, Rank me = 0, int data_lanes = 1) {
  return lower(schedule, me, data_lanes).value();
}

bool dead(const Lowered& program, std::size_t step) { return (program.steps[step].flags & kTargetDead) != 0; }

TEST(Fuse, JoinsAReceiveWithTheSendOfItsTarget) {
  Schedule schedule(2);
  Lane& lane = schedule.lane();
  lane.recv(1, output(0));
  lane.send(2, output(0));
  lane.recv_reduce(1, input(1), output(1));
  lane.send(2, output(1));
  schedule.lane(1).load_reduce({1, 2}, input(0), scratch(0));
  schedule.lane(1).send_all({1, 2}, scratch(0));
  const Lowered program = lowered(schedule);
  EXPECT_THAT(ops(program), testing::ElementsAre(StepOp::RecvSend, StepOp::RecvReduceSend, StepOp::LoadReduceSend));
  EXPECT_EQ(program.steps[2].in_count, 2);
  EXPECT_EQ(program.steps[2].out_count, 2);
}

TEST(Fuse, LeavesOtherNeighboursApart) {
  Schedule schedule(2);
  Lane& lane = schedule.lane();
  lane.recv(1, output(0));
  lane.send(2, output(1));  // another chunk
  lane.copy(input(0), output(0));
  lane.send(2, output(0));  // after a copy
  EXPECT_THAT(ops(lowered(schedule)), testing::ElementsAre(StepOp::Recv, StepOp::Send, StepOp::Copy, StepOp::Send));
}

TEST(Fuse, JoinsOneSendOnly) {
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  lane.recv(1, output(0));
  lane.send(2, output(0));
  lane.send(3, output(0));
  const Lowered program = lowered(schedule);
  EXPECT_THAT(ops(program), testing::ElementsAre(StepOp::RecvSend, StepOp::Send));
  EXPECT_FALSE(dead(program, 0)) << "the second send reads the target";
}

TEST(DeadTargets, AreThoseOfARingsPartialSums) {
  const Algorithm& ring = *find_algorithm(Collective::AllReduce, "ring");
  const Lowered program = lowered(ring.build({Collective::AllReduce, 4}, 1), 1);
  EXPECT_THAT(ops(program),
              testing::ElementsAre(StepOp::Send, StepOp::RecvReduceSend, StepOp::RecvReduceSend, StepOp::RecvReduceSend,
                                   StepOp::RecvSend, StepOp::RecvSend, StepOp::Recv));
  for (std::size_t i = 0; i < program.steps.size(); ++i) EXPECT_EQ(dead(program, i), i == 1 || i == 2) << i;
}

// A relay of output[0] that is overwritten later; `lines` come in between or in another lane.
template <typename Lines>
bool relay_is_dead(Lines&& lines) {
  Schedule schedule(2);
  Lane& lane = schedule.lane();
  lane.recv_reduce(1, input(0), output(0));
  lane.send(2, output(0));
  lines(schedule);
  lane.recv(1, output(0));
  return dead(lowered(schedule), 0);
}

TEST(DeadTargets, AreNotReadBeforeTheyAreOverwritten) {
  EXPECT_TRUE(relay_is_dead([](Schedule&) {}));
  EXPECT_TRUE(relay_is_dead([](Schedule& s) { s.lane().copy(input(1), output(1)); }));
  EXPECT_FALSE(relay_is_dead([](Schedule& s) { s.lane().send(2, output(0)); }));
  EXPECT_FALSE(relay_is_dead([](Schedule& s) { s.lane().reduce(input(1), output(0)); }));
  EXPECT_FALSE(relay_is_dead([](Schedule& s) { s.lane().send(2, input(0)); })) << "in place this is output[0]";
}

TEST(DeadTargets, AreNotReadByOtherLanes) {
  EXPECT_FALSE(relay_is_dead([](Schedule& s) { s.lane(1).send(2, output(0)); }));
  EXPECT_TRUE(relay_is_dead([](Schedule& s) { s.lane(1).send(2, output(1)); }));
}

TEST(DeadTargets, AreScratchThatNobodyReadsButNotTheOutput) {
  for (const Chunk target : {scratch(0), output(0)}) {
    Schedule schedule(1);
    schedule.lane().recv_reduce(1, input(0), target);
    schedule.lane().send(2, target);
    EXPECT_EQ(dead(lowered(schedule), 0), target.buffer == Buffer::Scratch);
  }
}

TEST(DataLanes, RepeatEveryStrandWithItsOwnNumbers) {
  Schedule schedule(1);
  schedule.lane(0).send(1, input(0));
  schedule.lane(1).recv(1, output(0), 0);
  const Lowered program = lowered(schedule, 0, 3);
  ASSERT_EQ(program.lanes.size(), 6u);
  for (std::uint16_t i = 0; i < 6; ++i) {
    EXPECT_EQ(program.lanes[i].number, i);
    EXPECT_EQ(program.lanes[i].data_lane, i / 2);
  }
  EXPECT_THAT(program.targets, testing::ElementsAre(FifoEnd{1, 0}, FifoEnd{1, 2}, FifoEnd{1, 4}));
  EXPECT_THAT(program.sources, testing::ElementsAre(FifoEnd{1, 0}, FifoEnd{1, 2}, FifoEnd{1, 4}));
}

TEST(Emit, PutsOneselfInRankOrderAndSharesEqualEnds) {
  Schedule schedule(1);
  schedule.lane().load_reduce({0, 1, 4}, input(0), output(0));
  schedule.lane().load_reduce({0, 1, 4}, input(0), output(0));
  const Lowered program = lowered(schedule, 2);
  EXPECT_EQ(program.steps[0].own_place, 2);
  EXPECT_EQ(program.sources.size(), 3u);
  EXPECT_EQ(program.steps[1].in_first, program.steps[0].in_first);
}

TEST(Show, SaysWhatAStepDoes) {
  Schedule schedule(4);
  schedule.lane().recv_reduce(3, input(1), output(1));
  schedule.lane().send(1, output(1));
  schedule.lane(1).load_reduce({1, 2, 4, 5, 6}, input(0), output(0), 0);
  const Lowered program = lowered(schedule);
  EXPECT_EQ(show(program, program.steps[0], 0), "recv_reduce_send  output[1] = input[1] + message of 3; send to 1");
  EXPECT_EQ(show(program, program.steps[1], 1),
            "load_reduce       output[0] = sum of input[0] and messages of 1.0, 2.0, 4..6.0");
}

struct Malformed {
  const char* name;
  void (*build)(Lane& lane, Schedule& schedule);
  const char* message;
};

class MalformedSchedules : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedSchedules, AreRefusedWithTheLine) {
  Schedule schedule(2);
  GetParam().build(schedule.lane(), schedule);
  const Result<Lowered> result = lower(schedule, 1, 1);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(result.error().message, testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Lower, MalformedSchedules,
    testing::Values(Malformed{"SelfSend", [](Lane& lane, Schedule&) { lane.send(1, input(0)); },
                              "rank 1: schedule lane 0 line 0: exchanges a message with itself"},
                    Malformed{"NegativePeer", [](Lane& lane, Schedule&) { lane.recv(-1, output(0)); }, "peer -1"},
                    Malformed{"NoPeer", [](Lane& lane, Schedule&) { lane.send_all({}, input(0)); }, "names no peer"},
                    Malformed{"PeerTwice",
                              [](Lane& lane, Schedule&) {
                                lane.send_all({2, 2}, input(0));
                              },
                              "repeat"},
                    Malformed{"SourcePart", [](Lane& lane, Schedule&) { lane.send(0, input(2)); },
                              "source part 2 of a schedule of 2 parts"},
                    Malformed{"TargetPart", [](Lane& lane, Schedule&) { lane.recv(0, output(7)); }, "target part 7"},
                    Malformed{"WritesInput", [](Lane& lane, Schedule&) { lane.recv(0, input(0)); }, "writes to Input"},
                    Malformed{"FromLane", [](Lane& lane, Schedule&) { lane.recv(0, output(0), 3); },
                              "receives from lane 3"},
                    Malformed{"MixedSends",
                              [](Lane& lane, Schedule&) {
                                lane.send_all({0, 2}, input(0));
                                lane.send(2, input(1));
                              },
                              "line 1: a lane that sends to several peers"},
                    Malformed{"TwoReceivers",
                              [](Lane& lane, Schedule& schedule) {
                                lane.recv(0, output(0));
                                schedule.lane(1).recv(0, output(1), 0);
                              },
                              "received by two lanes"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Lower, RefusesDataLanesOutOfRange) {
  Schedule schedule(1);
  schedule.lane(1);
  EXPECT_FALSE(lower(schedule, 0, 0));
  EXPECT_FALSE(lower(schedule, 0, -3));
  EXPECT_FALSE(lower(schedule, 0, 40000));
  EXPECT_FALSE(lower(Schedule(0), 0, 1));
}

}  // namespace
}  // namespace wreath
