// Tests credit, which tells a sender how many messages the receiver has consumed.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/put/pair.hpp"

namespace wreath::put {
namespace {

// A peer that has what it waited for may leave. Then some adapters refuse whatever else is put to it.
TEST(PutCredit, ThatAnAdapterDoesNotTakeHoldsNoCallAndNeedsProgress) {
  constexpr int kMessages = 8;  // half of the window
  Pair pair(shape_of(1, 4), {});
  Stream stream(pair, 0, 0);
  for (int i = 0; i < kMessages; ++i) stream.add(8, Way::Ordinary);
  for (int i = 0; i < 1000; ++i) {
    stream.send_all();
    ASSERT_TRUE(pair.round()) << pair.error.message;
  }
  pair.network.whims().full = true;
  stream.take_all();
  ASSERT_TRUE(stream.done());
  PutLink& receiver = *pair.ends[1].link;
  ASSERT_TRUE(receiver.progress(true));
  EXPECT_FALSE(receiver.send_blocked());
  EXPECT_EQ(receiver.in_flight(), 0U);
  EXPECT_TRUE(receiver.needs_progress());
  EXPECT_EQ(receiver.counts().credits, 1U);
  pair.network.whims().full = false;
  ASSERT_TRUE(receiver.progress(true));
  EXPECT_FALSE(receiver.needs_progress());
}

// Credits that a slow network does not deliver do not pile up at the peer. This one delivers the newest, and leaves
// those before it behind.
TEST(PutCredit, IsNotUnderWayTooOften) {
  Whims whims;
  whims.limits.ordered = false;
  whims.idle_chance = 1;
  Pair pair(shape_of(1, 1), whims);
  Stream there(pair, 0, 0);
  constexpr std::size_t kMessages = 200;
  for (std::size_t i = 0; i < kMessages; ++i) there.add(8, Way::Ordinary);
  std::size_t most = 0;
  bool waits = false;
  const auto round = [&] { ASSERT_TRUE(pair.round()) << pair.error.message; };
  for (std::size_t i = 0; i < kMessages && !there.done(); ++i) {
    for (int each = 0; each < 4; ++each) {
      there.send_all();
      round();
    }
    while (pair.network.step_newest(pair.ends[0].adapter())) {
    }
    for (int each = 0; each < 4; ++each) {
      round();
      there.take_one();
    }
    round();
    most = std::max(most, pair.network.under_way(pair.ends[1].adapter()));
    waits = waits || pair.ends[1].link->needs_progress();
    pair.network.step_newest(pair.ends[1].adapter());
    round();
  }
  EXPECT_TRUE(there.done());
  EXPECT_EQ(most, kMostCredits);
  EXPECT_TRUE(waits) << "what is owed is told between calls, too";
  EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
}

// The fewest bits tell how much was consumed. A put that is under way for long then looks like a newer one, unless
// those behind it wait.
TEST(PutCredit, ThatComesVeryLateIsNotTakenForANewerOne) {
  Whims whims;
  whims.limits.ordered = false;
  whims.limits.told_bits = kFewestToldBits;
  whims.idle_chance = 1;
  Pair pair(shape_of(1, 1), whims);
  Stream there(pair, 0, 0);
  constexpr std::size_t kMessages = 426;
  for (std::size_t i = 0; i < kMessages; ++i) there.add(8, Way::Ordinary);
  const TestAdapter& receiver = pair.ends[1].adapter();
  int waits = 0;
  const auto deliver_all = [&] {
    while (pair.network.step(receiver)) {
    }
  };
  for (int idle = 0; !there.done();) {
    const std::size_t seen = there.seen();
    there.send_all();
    ASSERT_TRUE(pair.round()) << pair.error.message;
    while (pair.network.step_newest(pair.ends[0].adapter())) {
    }
    ASSERT_TRUE(pair.round()) << pair.error.message;
    there.take_all();
    ASSERT_TRUE(pair.round()) << pair.error.message;
    if (pair.network.under_way(receiver) > 1) pair.network.step_newest(receiver);
    idle = there.seen() == seen ? idle + 1 : 0;
    if (idle < 10) continue;
    idle = 0;
    ++waits;
    deliver_all();
  }
  deliver_all();
  EXPECT_TRUE(pair.round()) << pair.error.message;
  EXPECT_GT(waits, 0);
  EXPECT_EQ(there.wrong(), "");
  EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
}

}  // namespace
}  // namespace wreath::put
