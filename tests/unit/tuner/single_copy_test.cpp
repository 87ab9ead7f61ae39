// The machine or the program decides which messages are read out of their senders' memory.
#include "src/tuner/single_copy.hpp"

#include <gtest/gtest.h>

#include <utility>

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

// The least and the most bytes of calls that two ranks with such caches read.
std::pair<std::size_t, std::size_t> bounds(Collective collective, const CacheSizes& caches) {
  const SingleCopy pair = SingleCopy::of_machine("GenuineIntel", {.ping_pong = PairSizes::of("GenuineIntel", caches)});
  const SingleCopyRule rule = pair.rule(collective);
  EXPECT_EQ(pair.message_bytes({collective, rule.least_bytes - 1, false}), 0U);
  EXPECT_EQ(pair.message_bytes({collective, rule.least_bytes, false}), 64 * kKiB);
  EXPECT_EQ(pair.message_bytes({collective, rule.call_bytes, false}), 64 * kKiB);
  EXPECT_EQ(pair.message_bytes({collective, rule.call_bytes + 1, false}), 0U);
  return {rule.least_bytes, rule.call_bytes};
}

TEST(SingleCopy, OfRanksWithPingPongSlotsIsForCallsBetweenTheirCaches) {
  using Bounds = std::pair<std::size_t, std::size_t>;
  const CacheSizes large{2048 * kKiB, 480 * 1024 * kKiB};
  EXPECT_EQ(bounds(Collective::AllGather, large), Bounds(1792 * kKiB + 1, 8192 * kKiB));
  EXPECT_EQ(bounds(Collective::AllToAll, large), Bounds(768 * kKiB + 1, 8192 * kKiB));
  EXPECT_EQ(bounds(Collective::Exchange, large), Bounds(512 * kKiB + 1, 8192 * kKiB));
  EXPECT_EQ(bounds(Collective::AllGather, {}), bounds(Collective::AllGather, large)) << "no cache is known";
  const CacheSizes small{1024 * kKiB, 4096 * kKiB};
  EXPECT_EQ(bounds(Collective::AllGather, small), Bounds(896 * kKiB + 1, 4096 * kKiB));
  EXPECT_EQ(bounds(Collective::Exchange, small), Bounds(256 * kKiB + 1, 4096 * kKiB));
  const SingleCopy pair = SingleCopy::of_machine("GenuineIntel", {.ping_pong = PairSizes::of("GenuineIntel", large)});
  EXPECT_EQ(pair.rule(Collective::AllReduce).call_bytes, 0U);
  EXPECT_EQ(pair.message_bytes({Collective::AllReduce, 4096 * kKiB, false}), 0U);
}

TEST(SingleCopy, IsNotForRanksThatShareCoresOrAProcess) {
  EXPECT_FALSE(SingleCopy::of_machine("GenuineIntel", {.crowded = true}).possible());
  EXPECT_FALSE(SingleCopy::of_machine("GenuineIntel", {.share_a_process = true}).possible());
}

}  // namespace
}  // namespace wreath
