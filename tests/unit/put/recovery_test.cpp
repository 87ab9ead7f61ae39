// Links whose channels are lost connect again, or say why they cannot.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/support/processes.hpp"
#include "tests/unit/put/pair.hpp"

namespace wreath::put {
namespace {

class PutRecoveries : public testing::TestWithParam<bool> {};

// The channel of each put in turn is lost: every place of the protocol is met.
TEST_P(PutRecoveries, AChannelMayBeLostAtAnyPut) {
  for (std::uint64_t lost = 1; lost <= 60; lost += testing_support::case_step()) {
    for (const std::uint32_t channels : {1U, 3U}) {
      Whims whims;
      whims.seed = static_cast<std::uint32_t>(lost);
      whims.limits.ordered = GetParam();
      whims.torn = true;
      whims.lose_put = lost;
      PutOptions options;
      options.channels = channels;
      Pair pair(shape_of(2, 2, 0xfffffffd), whims, options);
      std::vector<Stream> streams = streams_both_ways(pair, 9);
      ASSERT_TRUE(drive(pair, [&] { return step_all(streams); }))
          << lost << ", " << channels << " channels: " << pair.error.message;
      EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
    }
  }
}

TEST_P(PutRecoveries, BothEndsMayLoseTheirChannelsAtOnce) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    Whims whims;
    whims.seed = seed;
    whims.limits.ordered = GetParam();
    whims.stop_chance = seed % 3 * 2;
    Pair pair(shape_of(2, 2), whims);
    pair.word_delay = seed % 2 * 5;
    std::vector<Stream> streams = streams_both_ways(pair, 9);
    int rounds = 0;
    ASSERT_TRUE(drive(pair,
                      [&] {
                        if (++rounds % 50 == static_cast<int>(seed) && rounds < 400) {
                          for (End& end : pair.ends) pair.network.lose(end.adapter(), true);
                        }
                        return step_all(streams);
                      }))
        << seed << ": " << pair.error.message;
    EXPECT_EQ(pair.network.violations(), 0) << pair.network.violation();
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, PutRecoveries, testing::Bool());

// As soft-RoCE does now and then, once its port is up again.
TEST(PutRecovery, AnAdapterThatForgetsItsPutsIsConnectedAgain) {
  Whims whims;
  whims.limits.silent_ms = 20;
  Pair pair(shape_of(1, 4), whims);
  pair.ends[0].adapter().silent = true;
  std::vector<Stream> streams = streams_both_ways(pair, 9);
  ASSERT_TRUE(drive(pair, [&] { return step_all(streams); })) << pair.error.message;
  EXPECT_GT(pair.ends[0].link->counts().repeated, 0U);
  EXPECT_EQ(pair.ends[1].link->counts().repeated, 0U) << "all that this end put had ended";
}

// Between calls the progress thread looks now and then, and nobody arms.
TEST(PutRecovery, SilenceIsNoticedBetweenCalls) {
  Whims whims;
  whims.limits.silent_ms = 20;
  Pair pair(shape_of(1, 4), whims);
  pair.ends[0].adapter().silent = true;
  Stream stream(pair, 0, 0);
  stream.add(8, Way::Ordinary);
  stream.send_all();
  bool arrived = false;
  for (int i = 0; i < 2000 && !arrived; ++i) {
    for (int end : {0, 1}) {
      ASSERT_TRUE(pair.ends[end].link->progress(false));
      pair.take_word(end);
      ASSERT_TRUE(pair.give_word(end));
    }
    pair.network.step();
    ::poll(nullptr, 0, 1);
    stream.take_all();
    arrived = stream.done();
  }
  EXPECT_TRUE(arrived);
  EXPECT_EQ(stream.wrong(), "");
}

TEST(PutRecovery, APutMayTakeAsLongAsTheAdapterMayBeSilent) {
  Whims whims;
  whims.limits.silent_ms = 60'000;
  Pair pair(shape_of(1, 4), whims);
  pair.ends[0].adapter().silent = true;
  std::vector<Stream> streams = streams_both_ways(pair, 9);
  EXPECT_FALSE(drive(
      pair, [&] { return step_all(streams); }, 200))
      << "nothing can arrive";
  EXPECT_EQ(pair.error.message, "") << "and nothing is lost";
}

TEST(PutRecovery, MessagesArePutAgainAndCounted) {
  Whims whims;
  whims.lose_put = 4;
  Pair pair(shape_of(1, 4), whims);
  std::vector<Stream> streams = streams_both_ways(pair, 9);
  ASSERT_TRUE(drive(pair, [&] { return step_all(streams); })) << pair.error.message;
  EXPECT_GT(pair.ends[0].link->counts().repeated + pair.ends[1].link->counts().repeated, 0U);
}

// Each time a credit put is lost with its channel.
TEST(PutRecovery, CreditsThatWereLostDoNotCountAsUnderWay) {
  Pair pair(shape_of(1, 1), {});
  Stream stream(pair, 0, 0);
  for (int i = 0; i < 60; ++i) stream.add(8, Way::Ordinary);
  for (std::uint64_t loss = 1; loss <= 6; ++loss) {
    for (int i = 0; i < 200; ++i) {
      stream.send_all();
      ASSERT_TRUE(pair.round());
    }
    stream.take_all();
    ASSERT_TRUE(pair.ends[1].link->progress(true));
    ASSERT_EQ(pair.ends[1].link->counts().credits, loss);
    pair.network.lose(pair.ends[1].adapter(), true);
  }
  EXPECT_TRUE(drive(pair, [&] {
    stream.send_all();
    stream.take_all();
    return stream.done();
  }));
}

// The call is held until the message is put again, since the peer would wait for it in vain.
TEST(PutRecovery, ACopiedMessageWhoseChannelIsLostIsInFlightAgain) {
  Whims whims;
  Pair pair(shape_of(1, 4), whims);
  Stream stream(pair, 0, 0);
  stream.add(8, Way::Ordinary);
  stream.send_all();
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_EQ(pair.ends[0].link->in_flight(), 0U);
  pair.network.lose(pair.ends[0].adapter(), true);
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_GT(pair.ends[0].link->in_flight(), 0U);
  EXPECT_TRUE(pair.ends[0].link->send_blocked());
  EXPECT_TRUE(drive(pair, [&] {
    stream.take_all();
    return stream.done() && pair.ends[0].link->in_flight() == 0;
  }));
}

// The peer has all data. It may be gone, and nothing must wait for it.
TEST(PutRecovery, ALostChannelThatOwesNothingHoldsNoCall) {
  Pair pair(shape_of(1, 4), {});
  Stream stream(pair, 0, 0);
  stream.add(8, Way::Ordinary);
  ASSERT_TRUE(drive(pair, [&] {
    stream.send_all();
    stream.take_all();
    return stream.done() && !pair.ends[0].link->closing_loses_data();
  }));
  pair.network.lose(pair.ends[0].adapter(), true);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.ends[0].link->progress(true));
  EXPECT_EQ(pair.ends[0].link->in_flight(), 0U);
  EXPECT_FALSE(pair.ends[0].link->send_blocked());
  EXPECT_FALSE(pair.ends[0].link->closing_loses_data());
}

// The other end is between calls: it has nothing to send, and learns of the loss by the word.
TEST(PutRecovery, AnEndWithoutCallsConnectsAgainByWords) {
  Pair pair(shape_of(1, 4), {});
  pair.network.lose(pair.ends[0].adapter(), true);
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  ASSERT_TRUE(pair.ends[0].link->progress(true));
  pair.take_word(0);
  ASSERT_EQ(pair.ends[1].words.size(), 1U);
  ASSERT_TRUE(pair.give_word(1));
  for (int i = 0; i < 10 && pair.ends[1].link->send_blocked(); ++i) {
    ASSERT_TRUE(pair.ends[1].link->progress(false));
    for (int j = 0; j < 3; ++j) pair.take_word(1);
    while (!pair.ends[0].words.empty()) ASSERT_TRUE(pair.give_word(0));
    for (int j = 0; j < 3; ++j) pair.take_word(0);
    while (!pair.ends[1].words.empty()) ASSERT_TRUE(pair.give_word(1));
  }
  EXPECT_FALSE(pair.ends[1].link->send_blocked());
  Stream stream(pair, 1, 0);
  stream.add(8, Way::Ordinary);
  EXPECT_TRUE(drive(pair, [&] {
    stream.send_all();
    stream.take_all();
    return stream.done();
  })) << pair.error.message;
}

TEST(PutRecovery, ALossThatNoConnectionMendsEndsTheLinkAtOnce) {
  Whims whims;
  whims.lose_put = 2;
  whims.retryable = false;
  Pair pair(shape_of(1, 2), whims);
  pair.ends[0].adapter().add_trouble("test0: the port is in a bad mood");
  std::vector<Stream> streams;
  streams.emplace_back(pair, 0, 0);
  for (int i = 0; i < 9; ++i) streams.back().add(8, Way::Ordinary);
  EXPECT_FALSE(drive(pair, [&] { return step_all(streams); }));
  EXPECT_EQ(pair.error.code, ErrorCode::PeerLost);
  EXPECT_EQ(pair.error.failed_rank, 1);
  EXPECT_EQ(pair.error.message, "test0 to rank 1: retries ran out; test0: the port is in a bad mood");
  EXPECT_FALSE(pair.ends[0].link->send_blocked());
}

TEST(PutRecovery, EndsWithTheReasonWhenTheTimeIsOver) {
  Whims whims;
  whims.lose_put = 2;
  whims.refuses_connections = true;
  PutOptions options;
  options.reconnect_ms = 300;
  Pair pair(shape_of(1, 2), whims, options);
  std::vector<Stream> streams = streams_both_ways(pair, 9);
  const std::int64_t start = now_ns();
  EXPECT_FALSE(drive(pair, [&] { return step_all(streams); }));
  EXPECT_GE(now_ns() - start, 300'000'000);
  EXPECT_LT(now_ns() - start, 5'000'000'000);
  EXPECT_EQ(pair.error.code, ErrorCode::PeerLost);
  EXPECT_NE(pair.error.message.find("the port is down, and no new connection within 300 ms"), std::string::npos)
      << pair.error.message;
}

// This rank's adapter waits for links to others, and this peer has done its part.
TEST(PutRecovery, ThatOtherLinksHoldUpBlamesNoPeer) {
  Whims whims;
  whims.limits.shared = true;
  PutOptions options;
  options.reconnect_ms = 300;
  Pair pair(shape_of(1, 2), whims, options, 2);
  std::vector<Stream> streams = streams_both_ways(pair, 3);
  pair.ends[0].adapter().held = true;
  pair.network.lose(pair.ends[0].adapter(), true);
  EXPECT_FALSE(drive(pair, [&] { return step_all(streams) && false; }));
  EXPECT_EQ(pair.error.code, ErrorCode::System);
  EXPECT_EQ(pair.error.failed_rank, -1);
  EXPECT_NE(pair.error.message.find("an endpoint is not closed, which links to other ranks use"), std::string::npos)
      << pair.error.message;
}

// The time runs out just as the peer answers: nothing but the peer was in the way.
TEST(PutRecovery, ThatAPeerAnswersTooLateIsThePeersDoing) {
  Whims whims;
  whims.limits.shared = true;
  PutOptions options;
  options.reconnect_ms = 300;
  Pair pair(shape_of(1, 2), whims, options, 2);
  pair.network.lose(pair.ends[0].adapter(), true);
  while (pair.ends[0].words.empty()) {
    for (const int end : {0, 1}) {
      ASSERT_TRUE(pair.ends[end].link->progress(true));
      pair.take_word(end);
    }
    ASSERT_TRUE(pair.give_word(1));
    pair.network.step();
  }
  ::poll(nullptr, 0, 350);
  while (!pair.ends[0].words.empty() && pair.give_word(0)) {
  }
  EXPECT_EQ(pair.error.code, ErrorCode::PeerLost) << pair.error.message;
  EXPECT_NE(pair.error.message.find("no new connection within 300 ms"), std::string::npos) << pair.error.message;
  EXPECT_EQ(pair.error.message.find("other ranks"), std::string::npos) << pair.error.message;
}

// Messages that are here may still be read, and nobody waits for those that the peer did not take.
TEST(PutRecovery, EndsWithoutAnErrorWhereThePeerHasLeft) {
  Whims whims;
  whims.limits.shared = true;
  PutOptions options;
  options.reconnect_ms = 300;
  Pair pair(shape_of(1, 4), whims, options, 2);
  std::vector<Stream> streams = streams_both_ways(pair, 3);
  ASSERT_TRUE(drive(pair, [&] { return step_all(streams); })) << pair.error.message;
  streams[0].add(8, Way::Ordinary);
  streams[0].send_all();
  PutLink& link = *pair.ends[0].link;
  ASSERT_TRUE(link.progress(true));
  pair.network.lose(pair.ends[0].adapter(), true);
  link.on_peer_left();
  const std::int64_t end = now_ns() + 600 * kNsPerMs;
  while (now_ns() < end) {
    const auto moved = link.progress(true);
    ASSERT_TRUE(moved) << moved.error().message;
    ::poll(nullptr, 0, 1);
  }
  EXPECT_FALSE(link.send_blocked());
  EXPECT_EQ(link.in_flight(), 0U);
  EXPECT_FALSE(link.closing_loses_data());
  EXPECT_GT(pair.ends[0].adapter().given_up, 0);
}

TEST(PutRecovery, OfALinkThatHasFailedHoldsUpNoOther) {
  Pair pair(shape_of(1, 4), {});
  pair.network.lose(pair.ends[0].adapter(), false);
  EXPECT_FALSE(pair.ends[0].link->progress(true));
  EXPECT_EQ(pair.ends[0].adapter().given_up, 1);
}

// A channel that fails each time that it is connected again has not worked: the time goes on.
TEST(PutRecovery, ConnectionsThatNeverWorkDoNotGoOnForEver) {
  Whims whims;
  PutOptions options;
  options.reconnect_ms = 300;
  Pair pair(shape_of(1, 2), whims, options);
  std::vector<Stream> streams = streams_both_ways(pair, 3);
  pair.network.whims().lose_chance = 1;
  const std::int64_t start = now_ns();
  EXPECT_FALSE(drive(pair, [&] { return step_all(streams); }));
  EXPECT_LT(now_ns() - start, 5'000'000'000);
  EXPECT_EQ(pair.error.code, ErrorCode::PeerLost);
  EXPECT_NE(pair.error.message.find("retries ran out"), std::string::npos) << pair.error.message;
}

}  // namespace
}  // namespace wreath::put
