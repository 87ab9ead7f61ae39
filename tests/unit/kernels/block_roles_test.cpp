// Tests which threads of a block work, and how long they wait.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "src/executor/block/run_lanes.hpp"

namespace wreath {
namespace {

// Stands for one thread of a GPU's block, as far as its role goes.
struct WarpThread {
  static constexpr unsigned kTogether = 32;
  unsigned thread() const { return thread_; }
  unsigned threads() const { return threads_; }
  unsigned thread_;
  unsigned threads_;
};

void expect_workers(unsigned threads, unsigned first, unsigned count) {
  std::vector<unsigned> seen(count);
  for (unsigned thread = 0; thread < threads; ++thread) {
    const Workers role(WarpThread{thread, threads});
    ASSERT_EQ(role.works(), thread >= first) << thread << " of " << threads;
    ASSERT_EQ(role.threads(), count);
    if (role.works()) ++seen.at(role.thread());
  }
  EXPECT_EQ(seen, std::vector(count, 1U)) << threads;
}

TEST(Workers, AreAllThreadsButTheLeadersWarp) {
  expect_workers(512, 32, 480);
  expect_workers(64, 32, 32);
  expect_workers(33, 32, 1);
}
TEST(Workers, AreAllThreadsWhereThereIsOneWarp) {
  expect_workers(32, 0, 32);
  expect_workers(1, 0, 1);
}

// Stands for a block whose clock goes on by one with each look at it.
struct ClockBlock {
  static unsigned block() { return 0; }
  void pause() { ++pauses; }
  std::uint64_t clock_ns() { return now += 1; }
  std::uint64_t now = 0;
  int pauses = 0;
};

struct Waiting {
  explicit Waiting(WaitLimits limits) : patience(block, (limits.stop = &stop, limits)) {}
  // Returns how many looks find nothing until the patience gives up, or `most` if it does not.
  int looks(int most) {
    for (int i = 1; i <= most; ++i) {
      if (!patience.wait()) return i;
    }
    return most;
  }
  std::uint32_t stop = 0;
  ClockBlock block;
  Patience<ClockBlock> patience;
};

constexpr int kMany = 10'000;

TEST(Patience, CostsNoClockUntilItHasWaitedForLong) {
  Waiting waiting({.stop = nullptr, .stall_ns = 2, .look_limit = 0});
  waiting.looks(63);
  EXPECT_EQ(waiting.block.now, 0U);
  EXPECT_EQ(waiting.block.pauses, 63);
  waiting.looks(1);
  EXPECT_EQ(waiting.block.now, 1U);
}

TEST(Patience, EndsWhenNothingMovedForSoLong) {
  Waiting waiting({.stop = nullptr, .stall_ns = 2, .look_limit = 0});
  // The wait begins at clock 1, and at clock 4 three nanoseconds have passed.
  EXPECT_EQ(waiting.looks(kMany), 4 * 64);
  Waiting moving({.stop = nullptr, .stall_ns = 2, .look_limit = 0});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(moving.looks(3 * 64), 3 * 64);
    moving.patience.moved();
  }
}

TEST(Patience, GoesOnWhileOthersMove) {
  Counter moved[2];
  Waiting waiting({.stop = nullptr, .stall_ns = 2, .look_limit = 0, .moved = moved, .blocks = 2});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(waiting.looks(2 * 64), 2 * 64);
    ++moved[1].value;
  }
  EXPECT_LT(waiting.looks(kMany), kMany);
}

TEST(Patience, EndsWhenItIsToldTo) {
  Waiting waiting({.stop = nullptr, .stall_ns = 0, .look_limit = 0});
  EXPECT_EQ(waiting.looks(kMany), kMany);
  waiting.stop = 1;
  EXPECT_LE(waiting.looks(kMany), 64);
  EXPECT_EQ(Waiting({.stop = nullptr, .stall_ns = 0, .look_limit = 1}).looks(kMany), 1);
  EXPECT_EQ(Waiting({.stop = nullptr, .stall_ns = 0, .look_limit = 5}).looks(kMany), 5);
}

}  // namespace
}  // namespace wreath
