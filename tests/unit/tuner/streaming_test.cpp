// The machine or the setting decides which outputs are written past the caches.
#include "src/tuner/streaming.hpp"

#include <gtest/gtest.h>

#include "tests/support/surroundings.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

TEST(Streaming, BeginsWhereTheHostsRanksWriteTwiceTheLastCache) {
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 32 * kMiB, 1), 64 * kMiB);
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 32 * kMiB, 2), 32 * kMiB);
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 32 * kMiB, 8), 8 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 8 * kMiB, 2), 8 * kMiB);
}

TEST(Streaming, CountsLittleOfACacheThatOthersFill) {
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 480 * kMiB, 2), 32 * kMiB);
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 0, 2), 32 * kMiB) << "no cache is known";
}

TEST(Streaming, BeginsEarlierWherePagesAreReadSideBySide) {
  EXPECT_EQ(streamed_bytes("GenuineIntel", 480 * kMiB, 2), 8 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 480 * kMiB, 8), 2 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 0, 2), 8 * kMiB) << "no cache is known";
}

TEST(Streaming, IsAsTheSettingSays) {
  {
    const test::Environment environment{{{"WREATH_STREAM_BYTES", "4K"}}};
    EXPECT_EQ(streamed_bytes(2).value(), 4096U);
  }
  {
    const test::Environment environment{{{"WREATH_STREAM_BYTES", "0"}}};
    EXPECT_EQ(streamed_bytes(2).value(), kNothingStreams);
  }
  {
    const test::Environment environment{{{"WREATH_STREAM_BYTES", "auto"}}};
    EXPECT_GE(streamed_bytes(2).value(), kMiB);
  }
  const test::Environment environment{{{"WREATH_STREAM_BYTES", "much"}}};
  const auto refused = streamed_bytes(2);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("WREATH_STREAM_BYTES"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("or auto"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace wreath
