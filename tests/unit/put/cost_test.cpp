// Messages take the way that their size and their memory ask for, at the cost that is agreed and explained.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/put/link.hpp"
#include "src/put/way.hpp"
#include "tests/unit/put/pair.hpp"

namespace wreath::put {
namespace {

constexpr std::uint32_t kTileBytes = 512 * 1024;

// Sends one message, and returns what was counted for it.
PutCounts counts_of(const Whims& whims, std::size_t bytes, Way way) {
  Pair pair(shape_of(1, 2), whims);
  Stream stream(pair, 0, 0);
  stream.add(bytes, way);
  EXPECT_TRUE(carry(pair, stream)) << pair.error.message;
  EXPECT_EQ(stream.wrong(), "");
  return pair.ends[0].link->counts();
}

TEST(PutLink, MessagesOfEachSizeAndMemoryGoTheirOwnWay) {
  const Whims whims;
  EXPECT_EQ(counts_of(whims, 0, Way::Ordinary).inlined, 1U);
  EXPECT_EQ(counts_of(whims, 156, Way::Ordinary).inlined, 1U);
  const PutCounts small = counts_of(whims, 157, Way::Ordinary);
  EXPECT_EQ(small.staged_small, 1U);
  EXPECT_EQ(small.puts, 1U);
  EXPECT_EQ(counts_of(whims, kCopiedBytes, Way::Registered).staged_small, 1U);
  const PutCounts staged = counts_of(whims, kCopiedBytes + 1, Way::Staged);
  EXPECT_EQ(staged.staged, 1U);
  EXPECT_EQ(staged.puts, 2U);
  EXPECT_EQ(staged.doorbells, 1U);
  EXPECT_EQ(counts_of(whims, kCopiedBytes + 1, Way::Ordinary).copied, 1U);
  const PutCounts referenced = counts_of(whims, kSlotBytes, Way::Registered);
  EXPECT_EQ(referenced.by_reference, 1U);
  EXPECT_EQ(referenced.copied + referenced.staged, 0U);
}

TEST(PutLink, MessagesGoAndCostAsIsExplained) {
  for (const bool ordered : {true, false}) {
    Whims whims;
    whims.limits.put_bytes = 6000;
    whims.limits.ordered = ordered;
    for (const std::uint32_t bytes : {0U, 156U, 157U, 4096U, 4097U, 12'000U, kSlotBytes}) {
      const MessageWay way = way_of(bytes, whims.limits, "");
      const PutCounts counts = counts_of(whims, bytes, Way::Staged);
      const std::uint64_t explained[] = {way.counts[0].number, way.counts[1].number, way.counts[4].number};
      const std::uint64_t counted[] = {counts.puts, counts.doorbells, counts.copied_bytes};
      EXPECT_TRUE(std::ranges::equal(explained, counted)) << bytes;
      EXPECT_EQ(counts.inlined > 0, way.text.starts_with("inline")) << bytes;
      EXPECT_EQ(counts.staged_small > 0, way.text.starts_with("staged: copied")) << bytes;
      EXPECT_EQ(counts.staged > 0, way.text.starts_with("staged by")) << bytes;
    }
  }
  EXPECT_NE(way_of(6001, {.put_bytes = 6000}, "").text.find("in 2 parts, then its header"), std::string::npos);
}

TEST(PutLink, MessagesLongerThanTheLargestPutHaveTails) {
  for (const bool ordered : {true, false}) {
    Whims whims;
    whims.limits.put_bytes = 6000;
    whims.limits.ordered = ordered;
    const PutCounts counts = counts_of(whims, 12'001, Way::Ordinary);
    EXPECT_EQ(counts.tails, 1U);
    EXPECT_EQ(counts.puts, 4U);
    EXPECT_EQ(counts_of(whims, 12'000, Way::Ordinary).tails, 0U);
  }
}

class PutCost : public testing::TestWithParam<std::uint32_t> {};

TEST_P(PutCost, AMebibyteInLargeTilesCostsFourPutsAndNoRegistration) {
  for (const Way way : {Way::Staged, Way::Registered}) {
    PutOptions options;
    options.channels = GetParam();
    Pair pair(shape_of(1, 4, 0, kTileBytes), {}, options);
    Stream warm(pair, 0, 0);
    for (int i = 0; i < 8; ++i) warm.add(kTileBytes, way);
    const auto go_on = [&](std::size_t until) {
      return drive(pair, [&] {
        warm.send_all();
        warm.take_all();
        return warm.seen() == until && pair.ends[0].link->in_flight() == 0;
      });
    };
    ASSERT_TRUE(go_on(8));
    const PutCounts before = pair.ends[0].link->counts();
    const PutCounts credit_before = pair.ends[1].link->counts();
    constexpr std::uint32_t kMebibytes = 8;
    for (std::uint32_t i = 0; i < 2 * kMebibytes; ++i) warm.add(kTileBytes, way);
    ASSERT_TRUE(go_on(8 + 2 * kMebibytes));
    const PutCounts& after = pair.ends[0].link->counts();
    EXPECT_LE(after.puts - before.puts, 4 * kMebibytes);
    EXPECT_LE(after.doorbells - before.doorbells, 4 * kMebibytes);
    EXPECT_EQ(after.registrations - before.registrations, 0U);
    EXPECT_EQ(after.copied, 0U);
    EXPECT_LE(pair.ends[1].link->counts().puts - credit_before.puts, kMebibytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, PutCost, testing::Values(1, 4));

// Links to all peers share a port. Any of them may be left out of a round.
TEST(PutPort, IsPolledAndArmedOnceInARoundOfItsLinks) {
  const Pair pair(shape_of(1, 1), {});
  PutPort& port = *pair.ends[0].port;
  const TestAdapter& adapter = pair.ends[0].adapter();
  std::uint64_t turns[3] = {};
  const auto polls_of = [&](std::initializer_list<int> links) {
    const int before = adapter.polls;
    for (const int link : links) EXPECT_TRUE(port.poll_in_turn(turns[link]));
    return adapter.polls - before;
  };
  polls_of({0, 1, 2});
  for (int round = 0; round < 3; ++round) EXPECT_EQ(polls_of({0, 1, 2}), 1);
  EXPECT_EQ(polls_of({1}), 1);
  EXPECT_EQ(polls_of({2, 0}), 0) << "link 1 has polled since";
  EXPECT_EQ(polls_of({2, 0}), 1);

  const int arms = adapter.arms;
  for (int link = 0; link < 3; ++link) EXPECT_TRUE(port.arm());
  EXPECT_EQ(adapter.arms - arms, 1);
  EXPECT_TRUE(port.poll());
  EXPECT_TRUE(port.arm());
  EXPECT_EQ(adapter.arms - arms, 2) << "what comes after a poll would wake nobody";
}

// An event that came between the last poll and arm() may not wake the sleeper.
TEST(PutLink, IsPolledInTheRoundAfterItWasArmed) {
  const Pair pair(shape_of(1, 1), {});
  PutLink& link = *pair.ends[0].link;
  std::uint64_t other = 0;
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(pair.ends[0].port->poll_in_turn(other));
  const int before = pair.ends[0].adapter().polls;
  EXPECT_TRUE(link.arm());
  EXPECT_TRUE(link.progress(true));
  EXPECT_EQ(pair.ends[0].adapter().polls - before, 1);
}

}  // namespace
}  // namespace wreath::put
