// The near caches of a machine and its ranks decide how many bytes of slots messages use in turn.
#include "src/tuner/ring.hpp"

#include <gtest/gtest.h>

#include "wreath/link.hpp"

namespace wreath {
namespace {

constexpr std::size_t kKibi = 1U << 10;
constexpr std::size_t kMebi = 1U << 20;
constexpr std::size_t kSlots = 2 * kMebi;

TEST(Ring, IsTwiceTheReadersNearCache) {
  EXPECT_EQ(ring_bytes(512 * kKibi, 1, kSlots), kMebi);
  EXPECT_EQ(ring_bytes(kMebi, 1, kSlots), 2 * kMebi);
  EXPECT_EQ(ring_bytes(1280 * kKibi, 1, kSlots), 2 * kMebi) << "2.5 MiB is no power of two";
}

TEST(Ring, IsSharedByThePeers) {
  EXPECT_EQ(ring_bytes(kMebi, 2, kSlots), kMebi);
  EXPECT_EQ(ring_bytes(kMebi, 3, kSlots), 512 * kKibi);
  for (const int peers : {4, 5, 8, 64, 255}) {
    EXPECT_LE(ring_bytes(kMebi, peers, kSlots), 512 * kKibi) << peers;
    EXPECT_GE(ring_bytes(kMebi, peers, kSlots), kLeastRingBytes) << peers;
  }
  EXPECT_EQ(ring_bytes(kMebi, 8, kSlots), kLeastRingBytes) << "memory of many ranks does not grow";
}

TEST(Ring, IsSmallWhereItsLinesWouldNotLeaveTheCache) {
  EXPECT_EQ(ring_bytes(2 * kMebi, 1, kSlots), kLeastRingBytes);
  EXPECT_EQ(ring_bytes(kMebi, 1, kMebi), kLeastRingBytes) << "small slots";
  EXPECT_EQ(ring_bytes(kMebi, 1, 16 * kKibi), kLeastRingBytes);
  EXPECT_EQ(ring_bytes(0, 1, kSlots), kLeastRingBytes) << "no cache is known";
}

TEST(Ring, IsSmallWhereRanksShareCores) { EXPECT_EQ(ring_bytes(HostRanks{3, 2}, kSlots), kLeastRingBytes); }

TEST(Ring, LetsTwoRanksSendLargerMessagesByTheSmallPath) {
  const SmallLimits wide = small_limits(2, kMebi, false);
  EXPECT_EQ(wide.sum_bytes, kPairMessageBytes);
  EXPECT_EQ(wide.block_bytes, kPairMessageBytes);
  EXPECT_EQ(wide.rooted_bytes, kPairMessageBytes);
  for (const SmallLimits limits :
       {small_limits(2, kLeastRingBytes, false), small_limits(2, 0, false), small_limits(3, kMebi, false)}) {
    EXPECT_EQ(limits.sum_bytes, kSmallMessageBytes);
    EXPECT_LT(limits.block_bytes, kSmallMessageBytes);
    EXPECT_LT(limits.rooted_bytes, kSmallMessageBytes);
  }
}

TEST(PingPong, LetsRanksThatBothSendDoSoByTheSmallPath) {
  const SmallLimits limits = small_limits(2, kLeastRingBytes, true);
  EXPECT_EQ(limits.sum_bytes, kPairMessageBytes);
  EXPECT_EQ(limits.block_bytes, kPairMessageBytes);
  EXPECT_LT(limits.rooted_bytes, kSmallMessageBytes);
}

TEST(PingPong, IsForTwoRanksWithACoreEachOnAnIntel) {
  EXPECT_TRUE(fills_ping_pong("GenuineIntel", {2, 2}));
  EXPECT_FALSE(fills_ping_pong("GenuineIntel", {2, 1}));
  EXPECT_FALSE(fills_ping_pong("GenuineIntel", {3, 4}));
  EXPECT_FALSE(fills_ping_pong("AuthenticAMD", {2, 2}));
  EXPECT_FALSE(fills_ping_pong("", {2, 2}));
}

}  // namespace
}  // namespace wreath
