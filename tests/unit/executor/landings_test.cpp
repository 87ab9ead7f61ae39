// Lanes post the places of their messages ahead, so that a pump can put them there.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "algorithms/words.hpp"
#include "src/executor/host.hpp"
#include "src/schedule/lower.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath::landing {
namespace {

constexpr std::uint32_t kFirst = 0xFFFFFFFE;
constexpr std::uint64_t kTile = 64;
constexpr std::uint64_t kPart = 3 * kTile;

// Rank 1 receives two parts of three tiles from rank 0, whose messages a pump puts wherever it likes.
class Ahead : public testing::Test {
 protected:
  void start(bool lands, std::uint32_t landings, bool step_major = false) {
    Schedule schedule(2);
    schedule.lane().recv(0, output(0));
    schedule.lane().recv(0, output(1));
    plan_.lowered = lower(schedule, 1, 1).value();
    plan_.lowered.step_major = step_major;
    for (SlotHeader& slot : slots_) slot.sequence = kFirst - 1;  // none looks published
    fifo_.slots = slots_.data();
    fifo_.consumed = &consumed_;
    fifo_.landing = landings_.data();
    fifo_.landings = landings;
    fifo_.same_process = true;
    fifo_.next = kFirst;
    fifo_.slot_count = static_cast<std::uint32_t>(slots_.size());
    plan_.sources = {&fifo_};
    OperationState state = state_of(make_geometry({.ranks = 2, .count = 2 * kPart}, {.parts = 2, .tile_bytes = kTile}),
                                    nullptr, got_.data());
    state.lands = lands;
    lanes_.start(plan_, state, HostProcessor{{}, copy_kernels()});
  }
  std::byte* place(int part, int tile) {
    return got_.data() + static_cast<std::size_t>(part) * kPart + static_cast<std::size_t>(tile) * kTile;
  }
  // Expects the place of message kFirst + number, in the ring.
  void expect_posted(std::uint32_t number, const std::byte* target) {
    const Landing& posted = landings_[(kFirst + number) & (fifo_.landings - 1)];
    EXPECT_EQ(posted.sequence, kFirst + number);
    EXPECT_EQ(posted.target, target) << number;
    EXPECT_EQ(posted.bytes, kTile);
  }
  // Publishes the next message, whose data is at `data`.
  void publish(const std::byte* data) {
    const std::uint32_t sequence = fifo_.next;
    SlotHeader& slot = slots_[sequence & (fifo_.slot_count - 1)];
    slot = {};
    slot.epoch = 1;
    slot.signature = 7;
    slot.bytes = kTile;
    slot.region = kLocalAddress;
    slot.offset = reinterpret_cast<std::uintptr_t>(data);
    slot.sequence = sequence;
  }

  std::array<SlotHeader, 8> slots_{};
  Counter consumed_;
  std::array<Landing, 4> landings_{};
  RecvFifo fifo_;
  Plan plan_;
  LaneScheduler lanes_;
  std::vector<std::byte> got_ = std::vector<std::byte>(2 * kPart);
};

TEST_F(Ahead, AsManyPlacesAreKnownAsTheFifoTakes) {
  start(true, 4);
  EXPECT_EQ(lanes_.run(16), Advance::Blocked);
  EXPECT_EQ(fifo_.posted, kFirst + 4);
  expect_posted(0, place(0, 0));
  expect_posted(1, place(1, 0));
  expect_posted(2, place(0, 1));
  expect_posted(3, place(1, 1));
  // A message that is in its place is not copied. One that is elsewhere is.
  std::memset(place(0, 0), 5, kTile);
  publish(place(0, 0));
  EXPECT_EQ(lanes_.run(16), Advance::Advanced);
  EXPECT_EQ(got_[0], std::byte{5});
  const std::vector<std::byte> elsewhere(kTile, std::byte{6});
  publish(elsewhere.data());
  EXPECT_EQ(lanes_.run(16), Advance::Advanced);
  EXPECT_EQ(*place(1, 0), std::byte{6});
  EXPECT_EQ(fifo_.posted, kFirst + 6) << "all are posted";
  expect_posted(4, place(0, 2));
  expect_posted(5, place(1, 2));
  for (int tile = 1; tile < 3; ++tile) {
    for (int part = 0; part < 2; ++part) {
      publish(place(part, tile));
      lanes_.run(16);
    }
  }
  EXPECT_EQ(lanes_.run(16), Advance::Done);
  EXPECT_EQ(fifo_.posted, fifo_.next);
}

TEST_F(Ahead, APartAfterTheOtherIsPostedWhereLanesTakeThemSo) {
  start(true, 4, true);
  EXPECT_EQ(lanes_.run(16), Advance::Blocked);
  expect_posted(0, place(0, 0));
  expect_posted(2, place(0, 2));
  expect_posted(3, place(1, 0));
}

TEST_F(Ahead, MessagesThatMustNotLandHaveNoPlace) {
  start(true, 4);
  plan_.lowered.steps[1].flags = 0;
  EXPECT_EQ(lanes_.run(16), Advance::Blocked);
  expect_posted(2, place(0, 1));
  EXPECT_EQ(landings_[(kFirst + 1) & 3].target, nullptr);
  EXPECT_EQ(landings_[(kFirst + 1) & 3].bytes, kTile) << "the pump says that there is none";
}

TEST_F(Ahead, NothingIsPostedWhereMessagesAreCombined) {
  start(false, 4);
  EXPECT_EQ(lanes_.run(16), Advance::Blocked);
  for (const Landing& each : landings_) EXPECT_EQ(each.target, nullptr);
}

TEST_F(Ahead, AFifoOfOnePlaceGetsThatOfTheStepThatWaits) {
  start(true, 1);
  EXPECT_EQ(lanes_.run(16), Advance::Blocked);
  expect_posted(0, place(0, 0));
  publish(place(0, 0));
  EXPECT_EQ(lanes_.run(16), Advance::Advanced);
  EXPECT_EQ(lanes_.run(16), Advance::Blocked);
  expect_posted(1, place(1, 0));
}

// An earlier operation has taken messages without posting.
TEST_F(Ahead, PostingBeginsAtTheNextMessage) {
  start(true, 4);
  fifo_.posted = kFirst - 100;
  EXPECT_EQ(lanes_.run(16), Advance::Blocked);
  EXPECT_EQ(fifo_.posted, kFirst + 4);
  expect_posted(0, place(0, 0));
}

}  // namespace
}  // namespace wreath::landing
