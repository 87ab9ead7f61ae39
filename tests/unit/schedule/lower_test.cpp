// Each pass of lowering is tested: fusing, dead targets, data lanes, and the errors of malformed schedules.
#include "src/schedule/lower.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/schedule/meaning.hpp"
#include "src/schedule/show.hpp"
#include "tests/unit/schedule/words.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {
namespace {

std::vector<StepOp> ops(const Lowered& program) {
  std::vector<StepOp> list;
  for (const Step& step : program.steps) list.push_back(step.op);
  return list;
}

Lowered lowered(const Schedule& schedule, Rank me = 0, int data_lanes = 1) {
  return lower(schedule, me, data_lanes).value();
}

bool dead(const Lowered& program, std::size_t step) { return (program.steps[step].flags & kTargetDead) != 0; }
bool staged(const Lowered& program, std::size_t step) { return (program.steps[step].flags & kStaged) != 0; }

// Returns the parts first .. first + count - 1 of a buffer, in neighbouring slots.
Chunks run(Buffer buffer, std::uint32_t first, std::uint32_t count) {
  Chunks chunks;
  for (std::uint32_t i = 0; i < count; ++i) {
    chunks.push_back({buffer, first + i, is_lanes_own(buffer) ? 2 + i : 0});
  }
  return chunks;
}

TEST(Fuse, JoinsAReceiveWithTheSendOfItsTarget) {
  Schedule schedule(2);
  Lane& lane = schedule.lane();
  lane.recv(1, output(0));
  lane.send(2, output(0));
  lane.recv_reduce(1, input(1), output(1));
  lane.send(2, output(1));
  schedule.lane(1).load_reduce({1, 2}, input(0), partial(0));
  schedule.lane(1).send_all({1, 2}, partial(0));
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

TEST(Fuse, LeavesLinesOfSeveralChunksApart) {
  Schedule schedule(4);
  schedule.lane().recv(1, run(Buffer::Output, 0, 2));
  schedule.lane().send(2, run(Buffer::Output, 0, 2));
  EXPECT_THAT(ops(lowered(schedule)), testing::ElementsAre(StepOp::Recv, StepOp::Send));
}

TEST(Cut, MakesMessagesOfAtMostSixteenChunksAlikeOnBothEnds) {
  Schedule schedule(40);
  schedule.lane().send(1, run(Buffer::Input, 3, 35));
  schedule.lane().recv_reduce(1, run(Buffer::Input, 3, 35), run(Buffer::Partial, 3, 35), kUnfinished);
  const Lowered program = lowered(schedule);
  ASSERT_EQ(program.steps.size(), 6u);
  const std::uint32_t counts[] = {16, 16, 3}, firsts[] = {3, 19, 35};
  for (std::size_t i = 0; i < 6; ++i) {
    const Step& step = program.steps[i];
    EXPECT_EQ(step.op, i < 3 ? StepOp::Send : StepOp::RecvReduce);
    ASSERT_EQ(step.chunks, counts[i % 3]);
    for (std::uint32_t chunk = 0; chunk < step.chunks; ++chunk) {
      EXPECT_EQ(part_of(program, step, step.source_part, chunk), firsts[i % 3] + chunk);
    }
    if (i < 3) continue;
    EXPECT_EQ(step.target_part, step.source_part);
    EXPECT_EQ(step.target_slot, 2 + 16 * (i - 3));
    EXPECT_NE(step.flags & kPartialIncoming, 0);
  }
  EXPECT_EQ(program.several.size(), 35u) << "equal runs are kept once";
  EXPECT_EQ(program.partial_slots, 37u);
  EXPECT_EQ(program.scratch_slots, 0u);
}

TEST(Cut, KeepsTheOnePartOfALineOfOneChunk) {
  Schedule schedule(4);
  schedule.lane().copy(input(3), output(2));
  const Lowered program = lowered(schedule);
  EXPECT_EQ(program.steps[0].chunks, 1);
  EXPECT_EQ(program.steps[0].source_part, 3u);
  EXPECT_EQ(program.steps[0].target_part, 2u);
  EXPECT_TRUE(program.several.empty());
}

TEST(Staging, IsThatOfTheAuthorAndOfTheLanesOwnBuffers) {
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  lane.send(1, input(0));
  lane.send_all_staged({1}, input(0));
  lane.copy(input(0), scratch(0));
  lane.send(1, scratch(0));
  lane.recv_reduce(1, input(0), partial(0));
  lane.send(1, partial(0));
  lane.recv(1, output(0));
  lane.send(1, output(0));
  const Lowered program = lowered(schedule);
  const bool expected[] = {false, true, false, true, true, false};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(staged(program, i), expected[i]) << i;
}

// Returns whether a relay of output[0] that is overwritten later has a dead target. The function `lines` adds lines in
// between or in another lane.
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
  EXPECT_FALSE(relay_is_dead([](Schedule& s) { s.lane().copy(output(0), output(1)); }));
  EXPECT_FALSE(relay_is_dead([](Schedule& s) { s.lane().send(2, input(0)); })) << "in place this is output[0]";
}

TEST(DeadTargets, AreNotReadByOtherLanes) {
  EXPECT_FALSE(relay_is_dead([](Schedule& s) { s.lane(1).send(2, output(0)); }));
  EXPECT_TRUE(relay_is_dead([](Schedule& s) { s.lane(1).send(2, output(1)); }));
}

TEST(DeadTargets, AreSumsThatNobodyReadsButNotTheOutput) {
  for (const Chunk target : {partial(0), output(0)}) {
    Schedule schedule(1);
    schedule.lane().recv_reduce(1, input(0), target);
    schedule.lane().send(2, target);
    EXPECT_EQ(dead(lowered(schedule), 0), target.buffer == Buffer::Partial);
  }
}

TEST(DeadTargets, OfTheLaneItselfAreTheirOwnSlots) {
  const auto relay = [](Chunk read_later, int in_lane) {
    Schedule schedule(2);
    schedule.lane().recv_reduce(1, input(0), partial(0));
    schedule.lane().send(2, partial(0));
    // The reduction makes a slot for `read_later`.
    schedule.lane(in_lane).reduce(input(0), partial(0, 7));
    schedule.lane(in_lane).copy(read_later, output(1));
    return dead(lowered(schedule), 0);
  };
  EXPECT_FALSE(relay(partial(0), 0));
  EXPECT_FALSE(relay(partial(1), 0)) << "the same slot";
  EXPECT_TRUE(relay(partial(0, 1), 0)) << "another slot";
  EXPECT_TRUE(relay(partial(0), 1)) << "another lane's memory";
}

TEST(DataLanes, RepeatEveryStrandWithItsOwnNumbers) {
  Schedule schedule(1);
  schedule.lane(0).send(1, input(0));
  schedule.lane(1).recv(1, output(0), {.lane = 0});
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
  schedule.lane(1).load_reduce({1, 2, 4, 5, 6}, input(0), output(0), {.lane = 0});
  schedule.lane(1).recv_reduce(2, run(Buffer::Input, 1, 2), run(Buffer::Partial, 1, 2), kUnfinished);
  schedule.lane(1).send(2, partial(1));
  const Lowered program = lowered(schedule);
  EXPECT_EQ(show(program, program.steps[0], 0), "recv_reduce_send  output[1] = input[1] + message of 3; send to 1");
  EXPECT_EQ(show(program, program.steps[1], 1),
            "load_reduce       output[0] = sum of input[0] and messages of 1.0, 2.0, 4..6.0");
  EXPECT_EQ(show(program, program.steps[2], 1),
            "recv_reduce       partial[2..3: 1, 2] = input[1, 2] + partial message of 2");
  EXPECT_EQ(show(program, program.steps[3], 1), "send              partial[0: 1] to 2  (staged)");
}

// Returns whether the receive of `steps` that comes last may land ahead, on rank 0.
bool lands(const Schedule& schedule, bool in_place = true) {
  const Lowered program = lower(schedule, 0, 1, in_place).value();
  const auto receive = std::find_if(program.steps.rbegin(), program.steps.rend(), [](const Step& step) {
    return step.op == StepOp::Recv || step.op == StepOp::RecvSend;
  });
  return (receive->flags & kLands) != 0;
}

TEST(Landings, AreInPlacesThatNothingTouchesBefore) {
  const auto after = [](auto add, bool in_place = true) {
    Schedule schedule(2);
    add(schedule.lane());
    schedule.lane().recv(1, output(0));
    return lands(schedule, in_place);
  };
  EXPECT_TRUE(after([](Lane&) {}));
  EXPECT_TRUE(after([](Lane& lane) { lane.copy(input(1), output(1)); }));
  EXPECT_FALSE(after([](Lane& lane) { lane.copy(input(1), output(0)); })) << "it would be overwritten";
  EXPECT_FALSE(after([](Lane& lane) { lane.send(2, output(0)); })) << "it would be sent instead";
  EXPECT_FALSE(after([](Lane& lane) { lane.send(2, input(0)); })) << "in place";
  EXPECT_TRUE(after([](Lane& lane) { lane.send(2, input(0)); }, false));
  EXPECT_FALSE(after([](Lane& lane) { lane.recv_reduce(1, input(0), output(0)); }));
}

TEST(Landings, MayBeTouchedAfterwardsByTheirLaneAlone) {
  Schedule schedule(2);
  schedule.lane().recv(1, output(0));
  schedule.lane().send(2, output(0));
  schedule.lane().send(3, output(0));
  EXPECT_TRUE(lands(schedule));
  schedule.lane(1).send(2, output(0));
  EXPECT_FALSE(lands(schedule)) << "another lane may be early";
}

TEST(Landings, AreWholeChunksOfDataInOutput) {
  Schedule scratched(2);
  scratched.lane().recv(1, scratch(0));
  EXPECT_FALSE(lands(scratched));
  Schedule unfinished(2);
  unfinished.lane().recv(1, partial(0), kUnfinished);
  EXPECT_FALSE(lands(unfinished));
  Schedule several(2);
  several.lane().recv(1, run(Buffer::Output, 0, 2));
  EXPECT_FALSE(lands(several));
}

// All messages of rows that copy land, but for those of several chunks and through Scratch.
TEST(Landings, OfRowsThatCopy) {
  for (const Algorithm& row : algorithms()) {
    if (reduces(row.collective) || row.collective == Collective::Barrier) continue;
    for (int ranks = 2; ranks <= 9; ++ranks) {
      const Problem problem{row.collective, ranks, has_root(row.collective) ? 1 : 0};
      if (!row.supports(problem)) continue;
      for (Rank me = 0; me < ranks; ++me) {
        const Lowered program = lower(row.build(problem, me), me, 1, has_in_place(row.collective)).value();
        for (const Step& step : program.steps) {
          const bool receives = first_part(step.op) == StepOp::Recv && step.target_buffer == Buffer::Output;
          if (!receives || step.chunks > 1) continue;
          EXPECT_NE(step.flags & kLands, 0) << name(row.collective) << " " << row.name << " on " << ranks;
        }
      }
    }
  }
}

TEST(Landings, OfRowsThatReduceAreRare) {
  for (const Algorithm& row : algorithms()) {
    if (row.collective != Collective::AllReduce) continue;
    const Problem problem{row.collective, 4, 0};
    if (!row.supports(problem)) continue;
    const Lowered program = lower(row.build(problem, 0), 0, 1, true).value();
    for (const Step& step : program.steps) EXPECT_EQ(step.flags & kLands, 0) << row.name;
  }
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
    testing::Values(
        Malformed{"SelfSend", [](Lane& lane, Schedule&) { lane.send(1, input(0)); },
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
        Malformed{"FromLane", [](Lane& lane, Schedule&) { lane.recv(0, output(0), {.lane = 3}); },
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
                    schedule.lane(1).recv(0, output(1), {.lane = 0});
                  },
                  "received by two lanes"},
        Malformed{"NoChunks", [](Lane& lane, Schedule&) { lane.send(0, Chunks{}); }, "has no source"},
        Malformed{"TwoBuffers",
                  [](Lane& lane, Schedule&) {
                    lane.send(0, std::vector<Chunk>{input(0), output(1)});
                  },
                  "source chunks lie in input and output"},
        Malformed{"DifferentCounts", [](Lane& lane, Schedule&) { lane.copy(run(Buffer::Input, 0, 2), output(0)); },
                  "has 2 source and 1 target chunks"},
        Malformed{"SlotsApart",
                  [](Lane& lane, Schedule&) {
                    lane.recv(0, std::vector<Chunk>{scratch(0, 0), scratch(1, 2)});
                  },
                  "target slots are not neighbours: 2 after 0"},
        Malformed{"SlotOfOutput",
                  [](Lane& lane, Schedule&) {
                    lane.recv(0, Chunk{Buffer::Output, 0, 1});
                  },
                  "slot 1 of output"},
        Malformed{"SlotTooFar", [](Lane& lane, Schedule&) { lane.recv(0, scratch(0, 70000)); }, "target slot 70000"},
        Malformed{"SumInScratch", [](Lane& lane, Schedule&) { lane.recv_reduce(0, input(0), scratch(0)); },
                  "puts a sum into Scratch"},
        Malformed{"PartialMessageInScratch", [](Lane& lane, Schedule&) { lane.recv(0, scratch(0), kUnfinished); },
                  "puts a sum into Scratch"},
        Malformed{"DataInPartial", [](Lane& lane, Schedule&) { lane.recv(0, partial(0)); },
                  "receives a message of data into Partial"},
        Malformed{"ReducesOutput", [](Lane& lane, Schedule&) { lane.recv_reduce(0, output(0), output(0)); },
                  "reduces Output"},
        Malformed{"AddsToOutput", [](Lane& lane, Schedule&) { lane.reduce(input(0), output(0)); }, "adds to output"}),
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
