// Tests when a driver sleeps rather than yields.
#include "src/engine/yielding.hpp"

#include <gtest/gtest.h>

#include "tests/support/on_one_core.hpp"

namespace wreath {
namespace {

int refusals(Yielding& yielding) {
  int count = 0;
  while (!yielding.may()) ++count;
  return count;
}

TEST(Yielding, AfterALongYieldItRestsTwiceAsLongAsAfterTheOneBefore) {
  Yielding yielding(1000);
  yielding.took(999);
  EXPECT_EQ(refusals(yielding), 0);
  for (const int expected : {16, 32, 64, 128, 256, 512, 1024, 1024}) {
    yielding.took(1000);
    EXPECT_EQ(refusals(yielding), expected);
    yielding.took(10);
  }
}

TEST(Yielding, ManyShortYieldsAreForgiveness) {
  Yielding yielding(1000);
  yielding.took(5000);
  yielding.took(5000);
  EXPECT_EQ(refusals(yielding), 32);
  for (int i = 0; i < 5000; ++i) yielding.took(10);
  yielding.took(5000);
  EXPECT_EQ(refusals(yielding), 16);
}

TEST(Yielding, AMillisecondIsLong) {
  TickPair earlier = TickPair::now();
  earlier.ns -= 1'000'000'000;
  earlier.ticks -= 500'000'000;
  Yielding yielding = Yielding::since(earlier, {});
  yielding.took(400'000);
  EXPECT_EQ(refusals(yielding), 0);
  yielding.took(600'000);
  EXPECT_EQ(refusals(yielding), 16);
}

TEST(Yielding, WhileRanksFillTheCoreNoYieldIsLong) {
  const test::OnOneCore on_one_core;
  Counter core{on_one_core.core() + 1};
  Counter kept{0};
  Yielding yielding(1000, Turns(&kept, {{&core, &kept}}));
  kept.value += 1U << 30;
  yielding.took(5000);
  EXPECT_EQ(refusals(yielding), 0);
  yielding.took(5000);
  EXPECT_EQ(refusals(yielding), 16) << "they kept it no longer";
}

TEST(Yielding, TellsItsTurns) {
  Counter core{0};
  Counter kept{0};
  Yielding yielding(~std::uint64_t{0}, Turns(&kept, {{&core, &kept}}));
  EXPECT_TRUE(yielding.yield());
  const std::uint64_t begin = cycle_count();
  while (cycle_count() - begin < 8 * 1024) {
  }
  EXPECT_TRUE(yielding.yield());
  EXPECT_GE(kept.value, 8U);
}

}  // namespace
}  // namespace wreath
