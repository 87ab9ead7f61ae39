// The machine or the setting decides which outputs are written past the caches.
#include "src/tuner/streaming.hpp"

#include <gtest/gtest.h>

#include "tests/support/surroundings.hpp"

namespace wreath {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

TEST(Streaming, BeginsWhereTheHostsRanksWriteTwiceTheLastCache) {
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 32 * kMiB, 1).output, 64 * kMiB);
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 32 * kMiB, 2).output, 32 * kMiB);
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 32 * kMiB, 8).output, 8 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 8 * kMiB, 2).output, 8 * kMiB);
}

TEST(Streaming, CountsLittleOfACacheThatOthersFill) {
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 480 * kMiB, 2).output, 32 * kMiB);
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 0, 2).output, 32 * kMiB) << "no cache is known";
}

TEST(Streaming, BeginsEarlierWherePagesAreReadSideBySide) {
  EXPECT_EQ(streamed_bytes("GenuineIntel", 480 * kMiB, 2).output, 8 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 480 * kMiB, 8).output, 2 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 0, 2).output, 8 * kMiB) << "no cache is known";
}

TEST(Streaming, LeavesOutputsThatWereReadInAQuarterOfTheLastCache) {
  EXPECT_EQ(streamed_bytes("GenuineIntel", 256 * kMiB, 2).read_output, 32 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 256 * kMiB, 8).read_output, 8 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 32 * kMiB, 2).read_output, 8 * kMiB) << "no sooner than others";
  EXPECT_EQ(streamed_bytes("AuthenticAMD", 32 * kMiB, 2).read_output, 32 * kMiB);
  EXPECT_EQ(streamed_bytes("GenuineIntel", 0, 2).read_output, 8 * kMiB) << "no cache is known";
}

TEST(Streaming, IsAsTheSettingSays) {
  {
    const test::Environment environment{{{"WREATH_STREAM_BYTES", "4K"}}};
    EXPECT_EQ(streamed_bytes(2).value().output, 4096U);
    EXPECT_EQ(streamed_bytes(2).value().read_output, 4096U);
  }
  {
    const test::Environment environment{{{"WREATH_STREAM_BYTES", "0"}}};
    EXPECT_EQ(streamed_bytes(2).value().output, kNothingStreams);
    EXPECT_EQ(streamed_bytes(2).value().read_output, kNothingStreams);
  }
  {
    const test::Environment environment{{{"WREATH_STREAM_BYTES", "auto"}}};
    EXPECT_GE(streamed_bytes(2).value().output, kMiB);
  }
  const test::Environment environment{{{"WREATH_STREAM_BYTES", "much"}}};
  const auto refused = streamed_bytes(2);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("WREATH_STREAM_BYTES"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("or auto"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace wreath
