// Tests credit, which tells a sender how many messages the receiver has consumed.
#include <gtest/gtest.h>

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

// Credits that a slow network does not deliver do not pile up at the peer.
TEST(PutCredit, IsNotUnderWayTooOften) {
  Whims whims;
  whims.limits.ordered = false;
  Pair pair(shape_of(1, 1), whims);
  Stream there(pair, 0, 0);
  for (int i = 0; i < 100; ++i) there.add(8, Way::Ordinary);
  ASSERT_TRUE(drive(pair, [&] {
    there.send_all();
    there.take_all();
    return there.done();
  }));
  EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
  EXPECT_GE(pair.ends[1].link->counts().credits, 25U);
}

}  // namespace
}  // namespace wreath::put
