// Tests where the drivers of a crowded host run: which one moves, and that a thread that moved may still run anywhere.
#include "src/engine/placement.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <vector>

namespace wreath {
namespace {

using Cores = std::vector<int>;

TEST(Placement, TheLastRankOfAFullCoreMoves) {
  EXPECT_EQ(better_core(Cores{0, 0, 0, 1}, 2, Cores{0, 1}), 1);
  EXPECT_EQ(better_core(Cores{0, 0, 0, 1}, 1, Cores{0, 1}), std::nullopt) << "one at a time";
  EXPECT_EQ(better_core(Cores{5, 5, 5}, 2, Cores{4, 5, 6}), 4) << "of two empty cores the first";
}

TEST(Placement, EvenCoresStayAsTheyAre) {
  EXPECT_EQ(better_core(Cores{0, 1, 0, 1}, 3, Cores{0, 1}), std::nullopt);
  EXPECT_EQ(better_core(Cores{0, 0, 1}, 1, Cores{0, 1}), std::nullopt) << "three ranks cannot be even on two cores";
}

TEST(Placement, MovesOnlyToCoresOfTheMask) {
  EXPECT_EQ(better_core(Cores{0, 0, 0, 0}, 3, Cores{0}), std::nullopt);
  EXPECT_EQ(better_core(Cores{0, 0, 0, 0}, 3, Cores{}), std::nullopt);
}

TEST(Placement, RanksThatToldNothingCountNowhere) {
  EXPECT_EQ(better_core(Cores{-1, 0, -1, 1}, 0, Cores{0, 1}), std::nullopt);
  EXPECT_EQ(better_core(Cores{0, 0, -1, -1}, 1, Cores{0, 1}), 1);
}

TEST(Placement, AThreadMovesAndKeepsItsMask) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "needs two cores: run it on more";
  const int core = ::sched_getcpu();
  std::array<Counter, 3> told{};
  Placement placement(2, &told[2], {&told[0], &told[1], &told[2]});
  bool moved = false;
  for (int look = 0; look < 1'000'000 && !moved; ++look) {
    // The two peers are always on the core of this thread.
    told[0].value = told[1].value = static_cast<std::uint32_t>(::sched_getcpu() + 1);
    placement.look();
    moved = told[2].value != told[0].value;
  }
  EXPECT_TRUE(moved) << "from core " << core;
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Placement, WithoutPeersThatTellMovesNothing) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  Placement placement;
  for (int look = 0; look < 1000; ++look) placement.look();
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace wreath
