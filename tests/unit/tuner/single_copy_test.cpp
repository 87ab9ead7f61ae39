// The machine or the program decides which messages are read out of their senders' memory.
#include "src/tuner/single_copy.hpp"

#include <gtest/gtest.h>

namespace wreath {
namespace {

constexpr std::size_t kKiB = 1024;

TEST(SingleCopy, IsOffUntilSomebodyAsks) {
  EXPECT_FALSE(SingleCopy().possible());
  EXPECT_FALSE(SingleCopy(0).possible());
  EXPECT_EQ(SingleCopy().message_bytes({Collective::AllGather, 512 * kKiB, false}), 0U);
}

TEST(SingleCopy, OfTheProgramIsForEveryCall) {
  const SingleCopy asked(100);
  EXPECT_TRUE(asked.possible());
  EXPECT_EQ(asked.message_bytes({Collective::AllReduce, 64 << 20, false}), 100U);
  EXPECT_EQ(asked.message_bytes({Collective::Exchange, 1, true}), 100U);
}

// Messages that blocks of a device send stay where they are on every machine, unless the program turns this off.
TEST(SingleCopy, OfBlocksIsForLargeMessagesUnlessTheProgramSaysNone) {
  const SingleCopyCall call{Collective::AllReduce, 64 << 20, false, true};
  EXPECT_EQ(SingleCopy::of_machine("AuthenticAMD", {.crowded = true}).message_bytes(call), 16 * kKiB);
  EXPECT_EQ(SingleCopy::of_machine("GenuineIntel", {}).message_bytes(call), 16 * kKiB);
  EXPECT_EQ(SingleCopy(100).message_bytes(call), 16 * kKiB);
  EXPECT_EQ(SingleCopy(1 << 20).message_bytes(call), std::size_t{1} << 20);
  EXPECT_EQ(SingleCopy(0).message_bytes(call), 0U);
  EXPECT_EQ(SingleCopy(100).message_bytes({Collective::Exchange, 64 << 20, true, true}), 0U);
}

TEST(SingleCopy, OfAMachineIsWhatWasMeasured) {
  EXPECT_FALSE(SingleCopy::of_machine("AuthenticAMD", {}).possible());
  EXPECT_FALSE(SingleCopy::of_machine("", {.crowded = true}).possible());
  const SingleCopy intel = SingleCopy::of_machine("GenuineIntel", {});
  EXPECT_TRUE(intel.possible());
  EXPECT_EQ(intel.message_bytes({Collective::AllToAll, 8192 * kKiB, false}), 64 * kKiB);
  EXPECT_EQ(intel.message_bytes({Collective::AllToAll, 8192 * kKiB + 1, false}), 0U);
  EXPECT_EQ(intel.message_bytes({Collective::AllGather, 1024 * kKiB, false}), 0U) << "one slot serves all peers";
  EXPECT_EQ(intel.message_bytes({Collective::AllReduce, 1024 * kKiB, false}), 0U);
  EXPECT_EQ(intel.message_bytes({Collective::Broadcast, 1024 * kKiB, false}), 0U) << "a root does not wait";
  EXPECT_EQ(intel.message_bytes({Collective::Exchange, 1024 * kKiB, false}), 64 * kKiB);
  EXPECT_EQ(intel.message_bytes({Collective::Exchange, 1024 * kKiB, true}), 0U) << "a lone send does not wait";
}

TEST(SingleCopy, OfRanksWithPingPongSlotsIsForLargerCalls) {
  const SingleCopy pair = SingleCopy::of_machine("GenuineIntel", {.ping_pong = true});
  EXPECT_EQ(pair.message_bytes({Collective::Exchange, 512 * kKiB, false}), 0U) << "two slots hold its tiles";
  EXPECT_EQ(pair.message_bytes({Collective::Exchange, 512 * kKiB + 1, false}), 64 * kKiB);
  EXPECT_EQ(pair.message_bytes({Collective::Exchange, 12288 * kKiB, false}), 64 * kKiB);
  EXPECT_EQ(pair.message_bytes({Collective::Exchange, 12288 * kKiB + 1, false}), 0U);
  for (const Collective blocks : {Collective::AllGather, Collective::AllToAll}) {
    const std::size_t least = blocks == Collective::AllGather ? 2048 * kKiB : 1024 * kKiB;
    EXPECT_EQ(pair.message_bytes({blocks, least - 1, false}), 0U);
    EXPECT_EQ(pair.message_bytes({blocks, least, false}), 64 * kKiB);
    EXPECT_EQ(pair.message_bytes({blocks, 16384 * kKiB, false}), 64 * kKiB);
    EXPECT_EQ(pair.message_bytes({blocks, 16384 * kKiB + 1, false}), 0U) << "outputs go past the caches";
  }
}

TEST(SingleCopy, IsNotForRanksThatShareCoresOrAProcess) {
  EXPECT_FALSE(SingleCopy::of_machine("GenuineIntel", {.crowded = true}).possible());
  EXPECT_FALSE(SingleCopy::of_machine("GenuineIntel", {.share_a_process = true}).possible());
}

}  // namespace
}  // namespace wreath
