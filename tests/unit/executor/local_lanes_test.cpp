// Tests when lanes without messages advance: in turn where data is put into slots, and before messages are read where
// readers fetch it.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "algorithms/words.hpp"
#include "src/executor/trace.hpp"
#include "src/schedule/lower.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kTiles = 4;
constexpr std::uint64_t kTileBytes = 128;
constexpr std::uint64_t kBytes = kTiles * kTileBytes;

// Returns an all_gather of two ranks: it sends, receives, and copies its own block, on a lane each.
Schedule gather_two(Rank me) {
  Schedule schedule(2);
  Lane& give = schedule.lane(0);
  give.send(1 - me, input(me));
  schedule.lane(1).recv(1 - me, output(1 - me), {.lane = give.number()});
  schedule.lane(2).copy(input(me), output(me));
  return schedule;
}

class LocalLanes : public testing::Test {
 protected:
  explicit LocalLanes(std::uint64_t single_copy_bytes = 0, std::uint32_t slots = kTiles) {
    std::vector<Lowered> programs;
    for (const Rank me : {0, 1}) programs.push_back(std::move(lower(gather_two(me), me, 1)).value());
    world_ = std::make_unique<World>(std::move(programs),
                                     WorldShape{.slots = slots, .single_copy_bytes = single_copy_bytes});
    CallShape shape{.collective = Collective::AllGather, .ranks = 2, .count = kBytes};
    for (const std::size_t rank : {0U, 1U}) {
      shape.me = static_cast<Rank>(rank);
      std::iota(input_[rank], input_[rank] + kBytes, static_cast<unsigned char>(rank * 100));
      world_->scheduler(rank).set_trace(&traces_[rank]);
      const Geometry geometry = make_geometry(shape, {.parts = 2, .tile_bytes = kTileBytes});
      world_->start(rank, {state_of(geometry, reinterpret_cast<std::byte*>(input_[rank]),
                                    reinterpret_cast<std::byte*>(output_[rank]))});
    }
  }
  // Returns what rank 0 has done: s, r or c for each step that moved.
  std::string done() const {
    std::string text;
    for (const StepEvent& event : traces_[0].events()) {
      text += event.op == StepOp::Send ? 's' : event.op == StepOp::Copy ? 'c' : 'r';
    }
    return text;
  }
  void finish() {
    Advance ends[2] = {Advance::Advanced, Advance::Advanced};
    for (int round = 0; round < 100; ++round) {
      for (const std::size_t rank : {0U, 1U}) {
        if (ends[rank] != Advance::Done) ends[rank] = world_->scheduler(rank).run(16);
      }
    }
    for (const std::size_t rank : {0U, 1U}) {
      EXPECT_EQ(ends[rank], Advance::Done);
      for (const std::size_t block : {0U, 1U}) {
        EXPECT_EQ(std::memcmp(output_[rank] + block * kBytes, input_[block], kBytes), 0) << rank << " " << block;
      }
    }
  }

  unsigned char input_[2][kBytes];
  unsigned char output_[2][2 * kBytes];
  StepTrace traces_[2];
  std::unique_ptr<World> world_;
};

class LocalLanesBesideReaders : public LocalLanes {
 protected:
  LocalLanesBesideReaders() : LocalLanes(1) {}
};

TEST_F(LocalLanes, TakeTurnsWithSendsThatFillSlots) {
  LaneScheduler& first = world_->scheduler(0);
  EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "scscscsc") << "the tile was just read for its slot";
  EXPECT_EQ(first.run(16), Advance::Blocked);
  EXPECT_TRUE(first.waits_for(1));
  finish();
}

TEST_F(LocalLanesBesideReaders, GoOnAfterAllThatReadersWaitFor) {
  LaneScheduler& first = world_->scheduler(0);
  EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "ssss");
  EXPECT_FALSE(first.waits_for(1));
  EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "ssssc") << "one, then the caller may wake peers";
  EXPECT_TRUE(first.waits_for(1));
  finish();
  EXPECT_EQ(done().size(), 3 * kTiles);
}

TEST_F(LocalLanesBesideReaders, GoOnBeforeMessagesAreRead) {
  LaneScheduler& first = world_->scheduler(0);
  first.run(16);
  // This sends all messages.
  EXPECT_EQ(world_->scheduler(1).run(16), Advance::Advanced);
  for (std::uint32_t tile = 0; tile < kTiles; ++tile) EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "sssscccc") << "reading would push their data out of the caches";
  EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "ssssccccrrrr");
  finish();
}

TEST_F(LocalLanesBesideReaders, LeaveTheTurnToWhatAWireBrings) {
  LaneScheduler& first = world_->scheduler(0);
  world_->plan(0).sources.front()->owner_aborted = nullptr;
  first.run(16);
  EXPECT_EQ(world_->scheduler(1).run(16), Advance::Advanced);
  EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "ssssrrrr");
  finish();
  EXPECT_EQ(done(), "ssssrrrrcccc");
}

class LocalLanesBesideAShortFifo : public LocalLanes {
 protected:
  LocalLanesBesideAShortFifo() : LocalLanes(1, kTiles / 2) {}
};

TEST_F(LocalLanesBesideAShortFifo, DoNotHoldUpWhatReadersWaitFor) {
  LaneScheduler& first = world_->scheduler(0);
  EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "ss");
  world_->scheduler(1).run(16);
  // This copies all of the other rank's own data, and reads both messages.
  for (std::uint32_t turn = 0; turn <= kTiles; ++turn) world_->scheduler(1).run(16);
  EXPECT_EQ(first.run(16), Advance::Advanced);
  EXPECT_EQ(done(), "ssss") << "there is room for two more";
  finish();
  EXPECT_EQ(done(), "ssssccccrrrr");
}

}  // namespace
}  // namespace wreath
