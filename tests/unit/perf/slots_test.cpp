// Tests the limit of messages through slots.
#include "perf/limits/slots.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "perf/limits/machine.hpp"

namespace wreath::perf {
namespace {

constexpr Effort kLeastEffort{1, 0.2};

TEST(Slots, AreMeasuredWithRingsOfTwoSlotsAndMore) {
  if (pick_cores(2).empty()) GTEST_SKIP() << "the loop needs two cores: run it on more";
  for (const bool both_ways : {true, false}) {
    for (const bool rewrite : {true, false}) {
      for (const std::size_t bytes : {std::size_t{8} << 10, std::size_t{2} << 20}) {
        const auto times = slots_times(bytes, both_ways, rewrite, kLeastEffort);
        ASSERT_FALSE(times.empty()) << "what came out is wrong";
        EXPECT_EQ(times.front().ring_bytes, std::max<std::size_t>(2 * bytes, std::size_t{64} << 10));
        EXPECT_EQ(times.back().ring_bytes, std::size_t{16} << 20);
        for (const RingTime& each : times) EXPECT_GT(each.us, 0) << each.ring_bytes;
        EXPECT_GT(handed_over_us(bytes, rewrite, kLeastEffort), 0) << "what came out is wrong";
      }
    }
  }
}

TEST(Slots, AreComparedByTheBestRing) {
  const std::vector<RingTime> times{{64, 3.0}, {128, 2.0}, {256, 2.5}};
  EXPECT_EQ(fastest_ring(times).ring_bytes, 128U);
  EXPECT_EQ(slowest_ring(times).ring_bytes, 64U);
  EXPECT_TRUE(std::isnan(fastest_ring({}).us));
}

}  // namespace
}  // namespace wreath::perf
