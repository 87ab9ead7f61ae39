// Tests which way slots are filled, on machines with made-up costs, and what a fill does either way.
#include "src/executor/slot_fill.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tests/unit/executor/counting_kernels.hpp"

namespace wreath {
namespace {

// Holds the costs of a fill, in cycles per KiB.
struct Machine {
  std::uint64_t usual;
  std::uint64_t other;
};
constexpr Machine kNear{90, 95};
constexpr Machine kFar{1600, 95};

// Returns how many of so many fills go the other way. Every `interrupted`-th fill takes a hundred times as long; with 0
// none does.
int fills_other(FillHistory& history, const FillRule& rule, const Machine& machine, int fills, int interrupted = 0) {
  int other = 0;
  for (int i = 1; i <= fills; ++i) {
    const FillTurn turn = next_fill(history);
    other += turn.other ? 1 : 0;
    std::uint64_t cycles = turn.other ? machine.other : machine.usual;
    if (interrupted > 0 && i % interrupted == 0) cycles *= 100;
    add_fill(history, rule, turn, turn.timed ? cycles : 0);
  }
  return other;
}

int fills_past(FillHistory& history, const Machine& machine, int fills, int interrupted = 0) {
  return fills_other(history, kPastCaches, machine, fills, interrupted);
}

TEST(SlotFill, NearCoresFillPlainly) {
  FillHistory history;
  EXPECT_LT(fills_past(history, kNear, 10'000), 60);
  EXPECT_GT(fills_past(history, kNear, 10'000), 0) << "the other way is never tried";
}

TEST(SlotFill, FarCoresFillPastTheCachesSoon) {
  FillHistory history;
  EXPECT_GT(fills_past(history, kFar, 200), 150);
  const int past = fills_past(history, kFar, 10'000);
  EXPECT_GT(past, 9'900);
  EXPECT_LT(past, 10'000) << "plain stores are never tried again";
}

TEST(SlotFill, FollowsCoresThatMove) {
  FillHistory history;
  for (int move = 0; move < 3; ++move) {
    fills_past(history, kFar, 1'000);
    EXPECT_GT(fills_past(history, kFar, 1'000), 980) << move;
    fills_past(history, kNear, 1'000);
    EXPECT_LT(fills_past(history, kNear, 1'000), 20) << move;
  }
}

TEST(SlotFill, AnInterruptionNowAndThenChangesNothing) {
  FillHistory history;
  EXPECT_LT(fills_past(history, kNear, 20'000, 97), 100);
  FillHistory far;
  fills_past(far, kFar, 1'000);
  EXPECT_GT(fills_past(far, kFar, 20'000, 97), 19'800);
}

TEST(SlotFill, AWayStaysUntilTheOtherWinsClearly) {
  constexpr Machine kBetween{220, 100};
  FillHistory plain;
  fills_past(plain, kNear, 2'000);
  EXPECT_LT(fills_past(plain, kBetween, 10'000), 60);
  FillHistory past;
  fills_past(past, kFar, 2'000);
  EXPECT_GT(fills_past(past, kBetween, 10'000), 9'900);
}

TEST(SlotFill, TakesPagesSideBySideWhereTheyAreFaster) {
  constexpr Machine kFromMemory{160, 125};
  constexpr Machine kFromACache{60, 70};
  FillHistory history;
  EXPECT_GT(fills_other(history, kPages, kFromMemory, 1'000), 900);
  fills_other(history, kPages, kFromACache, 1'000);
  EXPECT_LT(fills_other(history, kPages, kFromACache, 10'000), 60);
  fills_other(history, kPages, kFromMemory, 1'000);
  EXPECT_GT(fills_other(history, kPages, kFromMemory, 10'000), 9'900);
}

TEST(SlotFill, KeepsTheOrderWhereTheTwoAreAboutAsFast) {
  constexpr Machine kAlike{104, 100};
  FillHistory history;
  EXPECT_LT(fills_other(history, kPages, kAlike, 10'000), 60);
}

TEST(SlotFill, PagesAreComparedOnlyWithFillsAtTheSameTime) {
  constexpr Machine kFromACache{60, 70};
  constexpr Machine kBusy{120, 140};
  FillHistory history;
  fills_other(history, kPages, kFromACache, 40);
  ASSERT_FALSE(history.takes_other);
  EXPECT_EQ(fills_other(history, kPages, kBusy, 500), 0) << "slower fills were compared with earlier, faster ones";
}

TEST(SlotFill, SizesHaveHistoriesOfTheirOwn) {
  SendFifo fifo;
  const auto index = [&](std::size_t bytes) { return &history_of(fifo, bytes) - fifo.past_caches; };
  EXPECT_EQ(index(4096), 0);
  EXPECT_EQ(index((32 << 10) - 1), 0);
  EXPECT_EQ(index(32 << 10), 1);
  EXPECT_EQ(index((128 << 10) - 1), 1);
  EXPECT_EQ(index(128 << 10), 2);
  EXPECT_EQ(index(std::size_t{1} << 30), 2);
}

// Returns how many bytes of the slots messages of that size use. Each of them must lie in its own slot.
std::size_t bytes_in_use(SendFifo fifo, std::size_t bytes) {
  std::vector<std::byte> staging(std::size_t{fifo.slot_count} * fifo.slot_bytes);
  fifo.staging = staging.data();
  std::set<std::size_t> places;
  for (int i = 0; i < 5'000; ++i, ++fifo.next) {
    SlotFill fill;
    const std::size_t place = static_cast<std::size_t>(fill.begin(fifo, bytes) - fifo.staging);
    EXPECT_EQ(place / fifo.slot_bytes, fifo.next % fifo.slot_count);
    EXPECT_EQ((place + bytes - 1) / fifo.slot_bytes, fifo.next % fifo.slot_count);
    places.insert(place);
  }
  return places.size() * bytes;
}

SendFifo fifo_with_ring(std::size_t bytes) {
  SendFifo fifo;
  fifo.slot_count = fifo.staging_count = 4;
  fifo.slot_bytes = 512 << 10;
  fifo.ring_bytes = bytes;
  return fifo;
}

TEST(SlotFill, MessagesOfAMiddleSizeUseTheRing) {
  const SendFifo fifo = fifo_with_ring(2 << 20);
  EXPECT_EQ(bytes_in_use(fifo, 4096), 2U << 20);
  EXPECT_EQ(bytes_in_use(fifo, 32 << 10), 2U << 20);
  EXPECT_EQ(bytes_in_use(fifo, kMostRingMessageBytes), 2U << 20);
  EXPECT_EQ(bytes_in_use(fifo, kStoreBufferBytes), kLeastRingBytes);
  EXPECT_EQ(bytes_in_use(fifo, 256 << 10), 4U * (256 << 10)) << "one place in each slot";
  EXPECT_EQ(bytes_in_use(fifo_with_ring(kLeastRingBytes), 8192), kLeastRingBytes);
}

TEST(SlotFill, PastTheCachesAFewSlotsDoButInATrialOfPlainStores) {
  SendFifo fifo = fifo_with_ring(2 << 20);
  fifo.past_caches[0].takes_other = true;
  fifo.past_caches[0].turns = 700;
  EXPECT_EQ(bytes_in_use(fifo, 8192), kLeastRingBytes);
  fifo.past_caches[0].turns = 2;
  EXPECT_EQ(bytes_in_use(fifo, 8192), 2U << 20) << "the way that would be taken is timed";
}

// Fills one message in two fills, by one way.
void fill_by(bool past) {
  SCOPED_TRACE(past);
  const CopyKernels kernels = counting_kernels();
  FillHistory history;
  history.takes_other = past;
  history.turns = 700;
  const std::vector<std::byte> source(50'001, static_cast<std::byte>(past ? 3 : 5));
  std::vector<std::byte> slot(source.size());
  SlotFill fill;
  fill.begin(&history);
  fill.fill(kernels, slot.data(), source.data(), 20'000);
  fill.fill(kernels, slot.data() + 20'000, source.data() + 20'000, 30'001);
  EXPECT_EQ(copy_counts().fences, 0);
  fill.end(kernels);
  EXPECT_EQ(slot, source);
  EXPECT_EQ(past ? copy_counts().past : copy_counts().plain, 2);
  EXPECT_EQ(copy_counts().fences, past ? 1 : 0);
  fill.end(kernels);
  EXPECT_EQ(copy_counts().fences, past ? 1 : 0) << "of a message that nothing was stored for";
}

TEST(SlotFill, EitherWayTheBytesArriveAndOnlyOneNeedsAFence) {
  fill_by(false);
  fill_by(true);
}

// Fills one message, from fifo.pages on, in one fill of each size.
void fill_by_pages(SendFifo& fifo, const std::vector<std::size_t>& sizes) {
  const CopyKernels kernels = counting_kernels();
  fifo.pages.takes_other = true;
  fifo.pages.turns = 700;
  std::size_t bytes = 0;
  for (const std::size_t each : sizes) bytes += each;
  std::vector<std::byte> source(bytes);
  for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i * 31 + (i >> 12));
  std::vector<std::byte> staging(std::size_t{fifo.slot_count} * fifo.slot_bytes);
  fifo.staging = staging.data();
  SlotFill fill;
  std::byte* const slot = fill.begin(fifo, bytes);
  std::size_t done = 0;
  for (const std::size_t each : sizes) {
    fill.fill(kernels, slot + done, source.data() + done, each);
    done += each;
  }
  fill.end(kernels);
  EXPECT_TRUE(std::equal(source.begin(), source.end(), slot));
}

TEST(SlotFill, OnlyLargePartsTakePagesSideBySide) {
  SendFifo fifo = fifo_with_ring(kLeastRingBytes);
  fill_by_pages(fifo, {64 << 10, 32 << 10, (32 << 10) - 1, 4096});
  EXPECT_EQ(copy_counts().pages, 2);
  EXPECT_EQ(copy_counts().plain, 2);
  EXPECT_EQ(fifo.pages.turns, 698U) << "small parts are counted";
}

TEST(SlotFill, PastTheCachesNoPagesAreCounted) {
  SendFifo fifo = fifo_with_ring(kLeastRingBytes);
  fifo.past_caches[1].takes_other = true;
  fifo.past_caches[1].turns = 700;
  fill_by_pages(fifo, {64 << 10});
  EXPECT_EQ(copy_counts().past, 1);
  EXPECT_EQ(fifo.pages.turns, 700U);
}

TEST(SlotFill, PingPongSlotsHaveTheirOwnHistoryOfPages) {
  SendFifo fifo = fifo_with_ring(kLeastRingBytes);
  std::vector<std::byte> held(PingPongSlots::kBytes);
  PingPongSlots slots;
  slots.data[0] = held.data();
  slots.count = 1;
  slots.pages.takes_other = true;
  slots.pages.turns = 700;
  fifo.ping_pong = &slots;
  const CopyKernels kernels = counting_kernels();
  const std::vector<std::byte> source(PingPongSlots::kBytes, std::byte{7});
  SlotFill fill;
  ASSERT_EQ(fill.begin(fifo, source.size()), held.data());
  fill.fill(kernels, held.data(), source.data(), source.size());
  EXPECT_EQ(held, source);
  EXPECT_EQ(copy_counts().pages, 1);
  EXPECT_EQ(fifo.pages.turns, 0U);
}

TEST(SlotFill, WhatCannotBeTimedIsPlainAndNotCounted) {
  const CopyKernels kernels = counting_kernels();
  FillHistory history;
  history.takes_other = true;
  history.turns = 700;
  const std::vector<std::byte> source(kLeastTimedFillBytes - 1);
  std::vector<std::byte> slot(source.size());
  SlotFill fill;
  fill.begin(&history);
  fill.fill(kernels, slot.data(), source.data(), slot.size());
  fill.end(kernels);
  EXPECT_EQ(copy_counts().plain, 1);
  EXPECT_EQ(copy_counts().past, 0);
  EXPECT_EQ(history.turns, 700u);
}

}  // namespace
}  // namespace wreath
