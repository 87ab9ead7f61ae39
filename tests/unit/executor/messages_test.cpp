// Tests what no algorithm shows alone: messages of several chunks, signatures by part, and lanes that are not resident.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <numeric>

#include "algorithms/words.hpp"
#include "src/schedule/lower.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath {
namespace {

std::vector<Lowered> lower_all(const std::vector<Schedule>& schedules) {
  std::vector<Lowered> programs;
  for (const Schedule& schedule : schedules) {
    programs.push_back(std::move(lower(schedule, static_cast<Rank>(programs.size()), 1)).value());
  }
  return programs;
}

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + 1);
  return all;
}

// The message goes there and back: rank 0 gets the chunks of `sent` that it sent.
TEST(SeveralChunks, TravelInOneMessageInTheirOrder) {
  constexpr int kParts = 4;
  const std::vector<Chunk> sent{input(3), input(0), input(2)};
  const std::vector<Chunk> kept{scratch(1, 3), scratch(2, 0), scratch(3, 2)};
  std::vector<Schedule> schedules(2, Schedule(kParts));
  schedules[0].lane().send(1, Chunks(sent));
  schedules[0].lane().recv(1, Chunks({output(3), output(0), output(2)}));
  schedules[1].lane().recv(0, Chunks(kept));
  schedules[1].lane().send(0, Chunks(kept));
  // 200 bytes make parts of 64, 64, 64 and 8. 70 bytes make parts of 64 and 6, and two without elements.
  for (const std::uint64_t count : {70U, 200U}) {
    std::mt19937_64 random(5);
    World world(lower_all(schedules), {});
    const Cut cut{.parts = kParts, .tile_bytes = 100, .several_parts = true};
    const Geometry geometry = make_geometry({.ranks = 3, .count = count}, cut);
    std::vector<std::byte> given = numbered(count);
    std::vector<std::byte> got(count);
    ASSERT_EQ(
        world.run({{state_of(geometry, given.data(), got.data())}, {state_of(geometry, nullptr, nullptr)}}, random),
        "");
    std::vector<std::byte> expected = given;
    std::fill(expected.begin() + 64,
              expected.begin() + std::min<std::ptrdiff_t>(128, expected.end() - expected.begin()), std::byte{0});
    EXPECT_EQ(got, expected) << count << " elements";
  }
}

// Prepares two messages on one lane: rank 0 sends Input parts 0 and 1 to rank 1.
struct TwoMessages {
  TwoMessages() {
    std::vector<Schedule> schedules(2, Schedule(2));
    for (const int part : {0, 1}) {
      schedules[0].lane().send(1, input(part));
      schedules[1].lane().recv(0, output(part));
    }
    programs = lower_all(schedules);
  }
  std::string run(const std::array<std::uint32_t, 2>& sent, const std::array<std::uint32_t, 2>& awaited) {
    World world(programs, {});
    std::mt19937_64 random(5);
    std::vector<RankCall> calls{{state_of(geometry, given.data(), nullptr)}, {state_of(geometry, nullptr, got.data())}};
    calls[0].state.input_signatures = sent.data();
    calls[1].state.output_signatures = awaited.data();
    const std::string wrong = world.run(calls, random);
    if (!wrong.empty()) fault = world.scheduler(1).failed_lane()->fault;
    return wrong;
  }

  std::vector<Lowered> programs;
  Geometry geometry = make_geometry({.ranks = 2, .count = 128}, {.parts = 2, .tile_bytes = 4096});
  std::vector<std::byte> given = numbered(128);
  std::vector<std::byte> got = std::vector<std::byte>(128);
  Fault fault = Fault::None;
};

TEST(Signatures, AreThoseOfPartsWhereTheCallHasThem) {
  TwoMessages messages;
  EXPECT_EQ(messages.run({11, 12}, {11, 12}), "");
  EXPECT_EQ(messages.got, messages.given);
}

TEST(Signatures, OfAnotherMessageFailTheReceiver) {
  TwoMessages messages;
  EXPECT_EQ(messages.run({11, 12}, {11, 13}), "rank 1 failed");
  EXPECT_EQ(messages.fault, Fault::Signature);
}

// Rank 0 sends its Input to rank 1, which reads it in rank 0's memory.
class ReadThere : public testing::Test {
 protected:
  // Returns the lane of rank 1 that failed, which holds the reason.
  LaneState failed_lane(const std::byte* input, bool aborted) {
    std::vector<Schedule> schedules(2, Schedule(1));
    schedules[0].lane().send(1, wreath::input(0));
    schedules[1].lane().recv(0, output(0));
    World world(lower_all(schedules), {.single_copy_bytes = 1});
    if (aborted) world.abort(0);
    std::mt19937_64 random(5);
    const Geometry geometry = make_geometry({.ranks = 2, .count = 4096}, {.tile_bytes = 4096});
    const std::string wrong = world.run(
        {{state_of(geometry, const_cast<std::byte*>(input), nullptr)}, {state_of(geometry, nullptr, got_.data())}},
        random);
    EXPECT_EQ(wrong, "rank 1 failed");
    const LaneState* lane = world.scheduler(1).failed_lane();
    return lane == nullptr ? LaneState{} : *lane;
  }
  // The page is as good as freed, and nobody else gets its address.
  std::byte* const closed_page_ =
      static_cast<std::byte*>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ~ReadThere() override { ::munmap(closed_page_, 4096); }
  std::vector<std::byte> got_ = std::vector<std::byte>(4096);
};

TEST_F(ReadThere, DataOfAnOwnerThatAbortedIsNoData) {
  const std::vector<std::byte> given = numbered(4096);
  EXPECT_EQ(failed_lane(given.data(), true).fault, Fault::OwnerAborted);
}

TEST_F(ReadThere, MemoryThatIsGoneIsAnError) {
  const LaneState lane = failed_lane(closed_page_, false);
  EXPECT_EQ(lane.fault, Fault::Unreadable);
  EXPECT_EQ(lane.fault_errno, EFAULT);
}

TEST_F(ReadThere, MemoryThatAnOwnerFreedAfterItAbortedIsItsAbort) {
  EXPECT_EQ(failed_lane(closed_page_, true).fault, Fault::OwnerAborted);
}

// Rank 0 sends four tiles to rank 1, which reads them in rank 0's memory.
class ReadAhead : public testing::Test {
 protected:
  static constexpr std::size_t kTile = 128;
  static constexpr std::size_t kBytes = 4 * kTile;

  ReadAhead() {
    schedules_[0].lane().send(1, wreath::input(0));
    schedules_[1].lane().recv(0, output(0));
  }
  // Lets rank 0 name the tiles of its first `sent` bytes, and rank 1 take so many steps for kBytes.
  void take(int steps, std::size_t sent = kBytes) {
    world_ = std::make_unique<World>(lower_all(schedules_), WorldShape{.slots = 4, .single_copy_bytes = 1});
    world_->start(0, {state_of(geometry_of(sent), given_.data(), back_.data())});
    world_->start(1, {state_of(geometry_of(kBytes), nullptr, got_.data())});
    world_->scheduler(0).run(16);
    EXPECT_EQ(world_->scheduler(1).run(steps), Advance::Advanced);
  }
  Geometry geometry_of(std::size_t bytes) const {
    return make_geometry({.ranks = 2, .count = bytes}, {.parts = schedules_[0].parts(), .tile_bytes = kTile});
  }
  // Lets both ranks end, after the sender's data is gone.
  void finish_without_data() {
    std::fill(given_.begin(), given_.end(), std::byte{0});
    EXPECT_EQ(world_->scheduler(1).run(16), Advance::Done);
    EXPECT_EQ(world_->scheduler(0).run(16), Advance::Done);
  }

  std::vector<Schedule> schedules_ = std::vector<Schedule>(2, Schedule(1));
  std::vector<std::byte> given_ = numbered(kBytes);
  std::vector<std::byte> got_ = std::vector<std::byte>(kBytes);
  std::vector<std::byte> back_ = std::vector<std::byte>(kBytes);
  std::unique_ptr<World> world_;
};

TEST_F(ReadAhead, TilesBehindTheFirstAreReadWithIt) {
  take(1);
  EXPECT_EQ(got_, given_);
  finish_without_data();
  EXPECT_EQ(got_, numbered(kBytes)) << "nothing is read again";
}

// Messages of two parts come in turns.
TEST_F(ReadAhead, IsOfTheStepsOwnTiles) {
  schedules_.assign(2, Schedule(2));
  for (const Rank part : {0, 1}) {
    schedules_[0].lane().send(1, wreath::input(part));
    schedules_[1].lane().recv(0, output(part));
  }
  take(1);
  EXPECT_TRUE(std::equal(got_.begin(), got_.begin() + 2 * kTile, given_.begin()));
  EXPECT_EQ(got_.back(), std::byte{0});
  EXPECT_EQ(world_->scheduler(1).run(1), Advance::Advanced);
  EXPECT_EQ(got_, given_);
  finish_without_data();
  EXPECT_EQ(got_, numbered(kBytes)) << "nothing is read again";
}

// Rank 1 sends what lies there before.
TEST_F(ReadAhead, LeavesPlacesThatAreStillUsed) {
  schedules_.assign(2, Schedule(1));
  for (const Rank rank : {0, 1}) {
    Lane& lane = schedules_[static_cast<std::size_t>(rank)].lane();
    lane.send(1 - rank, rank == 0 ? wreath::input(0) : output(0));
    lane.recv(1 - rank, output(0));
  }
  take(2);
  EXPECT_EQ(got_.front(), given_.front());
  EXPECT_TRUE(std::all_of(got_.begin() + kTile, got_.end(), [](std::byte each) { return each == std::byte{0}; }));
}

TEST_F(ReadAhead, EndsWhereTheSendersDataEnds) {
  take(1, 2 * kTile);
  EXPECT_TRUE(std::equal(got_.begin(), got_.begin() + 2 * kTile, given_.begin()));
  EXPECT_TRUE(std::all_of(got_.begin() + 2 * kTile, got_.end(), [](std::byte each) { return each == std::byte{0}; }));
}

// A rank that sleeps is woken between two runs. So the other says what it sends before it reads, which may take long.
TEST(LaneScheduler, TellsWhatItSendsBeforeItReadsMuch) {
  constexpr std::size_t kLarge = 2 * LaneScheduler::kBytesARun;
  std::vector<Schedule> schedules(2, Schedule(1));
  for (const Rank rank : {0, 1}) {
    schedules[static_cast<std::size_t>(rank)].lane(0).send(1 - rank, input(0));
    schedules[static_cast<std::size_t>(rank)].lane(1).recv(1 - rank, output(0), {.lane = 0});
  }
  const Geometry geometry = make_geometry({.ranks = 2, .count = kLarge}, {.tile_bytes = kLarge});
  World world(lower_all(schedules), {.single_copy_bytes = 1});
  std::vector<std::byte> given = numbered(kLarge);
  std::vector<std::vector<std::byte>> got(2, std::vector<std::byte>(kLarge));
  for (const std::size_t rank : {0U, 1U}) world.start(rank, {state_of(geometry, given.data(), got[rank].data())});
  world.scheduler(1).run(16);
  EXPECT_EQ(world.scheduler(0).run(16), Advance::Advanced);
  EXPECT_NE(got[0], given) << "it reads in its next run";
  world.scheduler(0).run(16);
  EXPECT_EQ(got[0], given);
}

// Each rank's lane 0 waits for the message that the other rank's lane 1 sends.
TEST(Residence, HoldsBackLanesBeyondIt) {
  std::vector<Schedule> schedules(2, Schedule(1));
  for (const Rank rank : {0, 1}) {
    Schedule& schedule = schedules[static_cast<std::size_t>(rank)];
    schedule.lane(0).recv(1 - rank, output(0), {.lane = 1});
    schedule.lane(1).send(1 - rank, input(0));
  }
  const Geometry geometry = make_geometry({.ranks = 2, .count = 10}, {.tile_bytes = 4096});
  for (const std::size_t resident : {std::size_t{1}, std::size_t{2}, LaneScheduler::kAllResident}) {
    World world(lower_all(schedules), {.resident = resident});
    std::mt19937_64 random(5);
    std::vector<std::byte> given = numbered(10);
    std::vector<std::byte> got(10);
    const RankCall call{state_of(geometry, given.data(), got.data())};
    EXPECT_EQ(world.run({call, call}, random), resident == 1 ? "deadlock" : "");
    const FifoEnd* end = world.scheduler(0).waiting_for();
    if (resident > 1) continue;
    ASSERT_NE(end, nullptr);
    EXPECT_EQ(*end, (FifoEnd{1, 1}));
  }
}

// Rank 0 gets a message of rank 1, then one of rank 2.
TEST(LaneScheduler, WaitsForThePeerWhoseMessageIsNext) {
  std::vector<Schedule> schedules(3, Schedule(1));
  for (const Rank peer : {1, 2}) {
    schedules[0].lane().recv(peer, output(0));
    schedules[static_cast<std::size_t>(peer)].lane().send(0, input(0));
  }
  World world(lower_all(schedules), {});
  const Geometry geometry = make_geometry({.ranks = 3, .count = 10}, {.tile_bytes = 4096});
  std::vector<std::byte> given = numbered(10);
  std::vector<std::byte> got(10);
  for (const std::size_t rank : {0U, 1U, 2U}) world.start(rank, {state_of(geometry, given.data(), got.data())});
  LaneScheduler& lanes = world.scheduler(0);
  for (const int peer : {1, 2}) {
    EXPECT_EQ(lanes.run(1), Advance::Blocked);
    EXPECT_TRUE(lanes.waits_for(peer));
    EXPECT_FALSE(lanes.waits_for(3 - peer));
    EXPECT_NE(world.scheduler(static_cast<std::size_t>(peer)).run(1), Advance::Blocked);
    EXPECT_NE(lanes.run(1), Advance::Blocked);
    EXPECT_FALSE(lanes.waits_for(peer)) << "it moves";
  }
}

}  // namespace
}  // namespace wreath
