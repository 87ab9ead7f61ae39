// Tests deadlines: they count down, and a deadline beyond the longest time never passes.
#include "src/base/clock.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace wreath {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;

TEST(Deadline, CountsDown) {
  EXPECT_TRUE(Deadline::after_ms(0).passed());
  EXPECT_EQ(Deadline::after_ms(0).left_ms(), 0);
  const Deadline soon = Deadline::after_ms(60'000);
  EXPECT_FALSE(soon.passed());
  EXPECT_GT(soon.left_ms(), 50'000);
  EXPECT_LE(soon.left_ms(), 60'000);
}

TEST(Deadline, FarAwayNeitherHasPassedNorOverflows) {
  for (const std::int64_t ms : {30 * kDayMs, 100 * kDayMs, 4'294'967'296, kLongestMs}) {
    const Deadline far = Deadline::after_ms(ms);
    EXPECT_FALSE(far.passed()) << ms;
    EXPECT_EQ(far.left_ms(), std::numeric_limits<int>::max()) << ms;
  }
}

TEST(Deadline, BeyondAllTimeIsNever) {
  for (const std::int64_t ms : {std::int64_t{-1}, kLongestMs + 1, std::numeric_limits<std::int64_t>::max() / 1'000,
                                std::numeric_limits<std::int64_t>::max()}) {
    const Deadline never = Deadline::after_ms(ms);
    EXPECT_FALSE(never.passed()) << ms;
    EXPECT_EQ(never.left_ms(), -1) << ms;
  }
}

}  // namespace
}  // namespace wreath
