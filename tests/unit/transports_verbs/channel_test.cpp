// Tests channels of the verbs transport over the stand-in for libibverbs: what is put arrives, ends and tells.
#include <poll.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/unit/transports_verbs/ends.hpp"

namespace wreath {
namespace {

using test::connect;
using test::FakeModify;
using test::settings_for;
using test::stop;
using test::VerbsEnd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

using VerbsChannels = test::VerbsTest;

TEST_F(VerbsChannels, PutsAreWholeWhenTheLastOneTells) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  std::mt19937 random(7);
  for (std::uint32_t round = 0; round < 100; ++round) {
    for (std::byte& byte : a.memory) byte = static_cast<std::byte>(round + 1);
    std::vector<Put> puts;
    for (int i = 0; i < 4; ++i) {
      puts.push_back(
          a.put_to(b, static_cast<std::size_t>(i) * 65536, 1 + static_cast<std::uint32_t>(random() % 65536)));
    }
    puts.back().tells = round;
    puts.back().reports = true;
    puts.back().number = 1000 + round;
    ASSERT_EQ(a.channel->put(puts).value(), 4u);
    ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
    EXPECT_THAT(b.told, ElementsAre(round));
    for (const Put& put : puts) {
      const std::size_t at = put.to - b.name.address;
      EXPECT_EQ(b.memory[at], static_cast<std::byte>(round + 1));
      EXPECT_EQ(b.memory[at + put.bytes - 1], static_cast<std::byte>(round + 1));
    }
    b.told.clear();
    ASSERT_TRUE(a.wait([&] { return !a.ended.empty(); }));
    EXPECT_THAT(a.ended, ElementsAre(1000 + round));
    a.ended.clear();
  }
}

TEST_F(VerbsChannels, ABatchIsOneDoorbellAndOneCompletion) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  std::vector<Put> puts;
  for (std::size_t i = 0; i < 16; ++i) puts.push_back(a.put_to(b, i * 64, 64));
  puts.back().reports = true;
  const auto before = fake_.counters();
  ASSERT_EQ(a.channel->put(puts).value(), puts.size());
  ASSERT_TRUE(a.wait([&] { return !a.ended.empty(); }));
  EXPECT_EQ(fake_.counters().doorbells - before.doorbells, 1u);
  EXPECT_EQ(fake_.counters().completions - before.completions, 1u);
  EXPECT_EQ(fake_.counters().registrations - before.registrations, 0u);
}

TEST_F(VerbsChannels, InlineBytesMayChangeAfterThePut) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  const std::uint32_t bytes = a.adapter->limits().inline_bytes;
  ASSERT_EQ(bytes, 256u);
  Put put = a.put_to(b, 0, bytes);
  put.registration = 0;
  put.tells = 5;
  std::memset(a.memory.data(), 1, bytes);
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
  std::memset(a.memory.data(), 2, bytes);
  ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
  EXPECT_EQ(b.memory[bytes - 1], std::byte{1});
  EXPECT_EQ(fake_.counters().inlined, 1u);
}

TEST_F(VerbsChannels, AnAdapterWithLessInlineRoomSaysSo) {
  test::FakeNetwork network;
  network.max_inline = 100;
  use(network);
  VerbsEnd a(settings_for("=fake_0"));
  EXPECT_EQ(a.adapter->limits().inline_bytes, 96u);
}

TEST_F(VerbsChannels, APutOfNoBytesTells) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  Put put;
  put.to = b.name.address;
  put.key = b.name.key;
  put.tells = 0xFFFF'FFFF;
  put.reports = true;
  put.number = 1;
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
  ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
  EXPECT_THAT(b.told, ElementsAre(0xFFFF'FFFFU));
  ASSERT_TRUE(a.wait([&] { return !a.ended.empty(); }));
}

// None of these reports, so only completions that the channel asks for itself free places of the queue.
TEST_F(VerbsChannels, AFullQueueTakesLessAndGoesOn) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  const std::uint32_t outstanding = a.adapter->limits().outstanding;
  const std::vector<Put> puts(outstanding + 44, a.put_to(b, 0, 8));
  EXPECT_LE(a.channel->put(puts).value(), outstanding);
  std::size_t taken = outstanding;
  ASSERT_TRUE(a.wait([&] {
    auto more = a.channel->put(puts);
    EXPECT_TRUE(more);
    taken += more.value();
    return taken > 20 * outstanding;
  }));
  EXPECT_TRUE(a.ended.empty());
  EXPECT_TRUE(a.lost.empty());
}

TEST_F(VerbsChannels, ReceivesAreThereForAllThatThePeerMayTell) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  for (std::uint32_t round = 0; round < 40; ++round) {
    std::vector<Put> puts(64, a.put_to(b, 0, 8));  // as many as the channel was made for
    for (std::uint32_t i = 0; i < puts.size(); ++i) puts[i].tells = round * 64 + i;
    std::size_t taken = 0;
    ASSERT_TRUE(a.wait([&] {
      taken += a.channel->put(std::span(puts).subspan(taken)).value();
      return taken == puts.size();
    }));
    ASSERT_TRUE(b.wait([&] { return b.told.size() == 64 * (round + 1); }));
  }
  std::vector<std::uint32_t> expected(40 * 64);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(b.told, expected);
  EXPECT_TRUE(a.lost.empty());
}

// A wake-up that is lost would make poll() take its minute. On a busy machine most puts are there before the sleep.
TEST_F(VerbsChannels, TheDescriptorWakesASleeper) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  constexpr int kSleeps = 500;
  int sleeps = 0;
  for (std::uint32_t round = 0; sleeps < kSleeps && round < 100 * kSleeps; ++round) {
    Put put = a.put_to(b, 0, 8);
    put.tells = round;
    put.reports = true;
    ASSERT_TRUE(a.wait([&] { return a.channel->put(std::span(&put, 1)).value() == 1; }));
    while (b.told.size() <= round) {
      if (b.adapter->arm()) {
        ++sleeps;
        pollfd sleeper{b.adapter->descriptor(), POLLIN, 0};
        ASSERT_EQ(::poll(&sleeper, 1, 60'000), 1) << "round " << round;
      }
      b.poll();
    }
  }
  EXPECT_GE(sleeps, kSleeps);
}

TEST_F(VerbsChannels, TheEventsThatArmFoundComeBeforeLaterOnes) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  const auto tell = [&](std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i <= last; ++i) {
      Put put = a.put_to(b, 0, 64);
      put.tells = i;
      ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
    }
    ASSERT_TRUE(a.wait([&] { return fake_.counters().immediates == last; }));
  };
  tell(1, 3);
  EXPECT_FALSE(b.adapter->arm());
  tell(4, 5);
  b.poll();
  EXPECT_THAT(b.told, ::testing::ElementsAre(1, 2, 3, 4, 5));
}

// Stops an end to which much is put. Returns whether that was before all of it was there.
bool stops_while_written(VerbsEnd& a, VerbsEnd& b) {
  EXPECT_TRUE(connect(a, b));
  std::memset(a.memory.data(), 1, a.memory.size());
  std::vector<Put> puts;
  for (std::size_t i = 0; i < 16; ++i) puts.push_back(a.put_to(b, i * 65536, 65536));
  puts.back().reports = true;
  EXPECT_EQ(a.channel->put(puts).value(), puts.size());
  EXPECT_TRUE(stop(b));
  std::memset(b.memory.data(), 2, b.memory.size());
  EXPECT_TRUE(a.wait([&] { return !a.lost.empty() || !a.ended.empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(std::count(b.memory.begin(), b.memory.end(), std::byte{2}), static_cast<std::ptrdiff_t>(b.memory.size()));
  return a.ended.empty();
}

// On a busy machine all may be there before the end has stopped.
TEST_F(VerbsChannels, NothingMoreIsWrittenOnceAChannelHasStopped) {
  for (int attempt = 0; attempt < 50; ++attempt) {
    VerbsEnd a(settings_for("=fake_0"));
    VerbsEnd b(settings_for("=fake_1"));
    const bool cut = stops_while_written(a, b);
    ASSERT_FALSE(HasFailure());
    if (cut) {
      ASSERT_EQ(a.lost.size(), 1u);
      EXPECT_TRUE(a.lost[0].retryable);
      EXPECT_THAT(
          a.lost[0].error.message,
          MatchesRegex("fake_0 port 1 gid 3 to 10\\.77\\.1\\.1 queue pair [0-9]+: the peer's adapter does not answer "
                       "\\(vendor's error 0x[0-9a-f]+\\)"));
    }
    ASSERT_TRUE(stop(a));
    if (cut) return;
  }
  FAIL() << "all was written each time";
}

// A put that has ended without a report leaves no completion when its channel is stopped, so it must have had one.
TEST_F(VerbsChannels, StopAfterPutsThatDoNotReport) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  const std::uint32_t outstanding = a.adapter->limits().outstanding;
  for (const std::uint32_t count : {1U, 3U, outstanding / 4, outstanding / 4 + 1, outstanding, outstanding + 10}) {
    ASSERT_TRUE(connect(a, b));
    std::vector<Put> puts(count, a.put_to(b, 0, 8));
    puts[std::min(count, outstanding) - 1].tells = count;
    ASSERT_EQ(a.channel->put(puts).value(), std::min(count, outstanding));
    ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until their ends are known at the sender, too
    ASSERT_TRUE(stop(a)) << count << " puts";
    ASSERT_TRUE(stop(b));
    EXPECT_TRUE(a.ended.empty() && a.lost.empty());
    b.told.clear();
    ASSERT_TRUE(a.channel->reset());
    ASSERT_TRUE(b.channel->reset());
  }
}

TEST_F(VerbsChannels, AStoppedChannelIsConnectedAnew) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  ASSERT_TRUE(connect(a, b));
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::vector<Put> puts(60, a.put_to(b, 0, 4096));
    for (Put& put : puts) put.tells = 1;
    ASSERT_GT(a.channel->put(puts).value(), 0u);
    const std::vector<std::byte> old_address = a.channel->address();
    ASSERT_TRUE(stop(a));
    ASSERT_TRUE(stop(b));
    a.ended.clear();
    b.told.clear();
    a.lost.clear();
    b.lost.clear();
    ASSERT_TRUE(a.channel->reset());
    ASSERT_TRUE(b.channel->reset());
    EXPECT_NE(a.channel->address(), old_address);
    ASSERT_TRUE(connect(a, b));
    Put put = a.put_to(b, 0, 8);
    put.tells = 100 + round;
    put.reports = true;
    put.number = round;
    ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1u);
    ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
    ASSERT_TRUE(a.wait([&] { return !a.ended.empty(); }));
    EXPECT_THAT(b.told, ElementsAre(100 + round));  // nothing of the old connection
    EXPECT_THAT(a.ended, ElementsAre(round));
    EXPECT_TRUE(a.lost.empty());
    EXPECT_TRUE(b.lost.empty());
    b.told.clear();
    a.ended.clear();
  }
}

TEST_F(VerbsChannels, AreNotUsedOutOfTurn) {
  VerbsEnd a(settings_for("=fake_0"));
  VerbsEnd b(settings_for("=fake_1"));
  Put put = a.put_to(b, 0, 8);
  EXPECT_THAT(a.channel->put(std::span(&put, 1)).error().message, HasSubstr("it is not connected"));
  EXPECT_THAT(a.channel->reset().error().message, HasSubstr("it is not stopped"));
  ASSERT_TRUE(connect(a, b));
  EXPECT_THAT(a.channel->connect(b.channel->address()).error().message, HasSubstr("it is not ready"));
}

// Adapters take 7 for retries without end.
TEST_F(VerbsChannels, NoQueuePairRetriesWithoutEnd) {
  test::VerbsEnd a(settings_for("=fake_0"));
  VerbsSettings most = settings_for("=fake_1");
  most.retry_count = 7;
  VerbsEnd b(most);
  ASSERT_TRUE(connect(a, b));
  std::array<FakeModify, 64> modifies;
  const std::size_t count = fake_.modifies(modifies.data(), modifies.size());
  ASSERT_LE(count, modifies.size());
  int retries = 0;
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_LT(modifies[i].retry_cnt, 7);
    EXPECT_LT(modifies[i].rnr_retry, 7);
    retries += modifies[i].retry_cnt >= 0 && modifies[i].rnr_retry >= 0 ? 1 : 0;
  }
  EXPECT_EQ(retries, 2);
}

TEST_F(VerbsChannels, SeveralShareOneAdapter) {
  VerbsEnd a(settings_for("=fake_0"), 3);
  VerbsEnd b(settings_for("=fake_1"), 3);
  auto second_a = a.adapter->make_channel(64).value();
  auto second_b = b.adapter->make_channel(64).value();
  EXPECT_EQ(second_a->index(), 1);
  ASSERT_TRUE(second_a->connect(second_b->address()));
  ASSERT_TRUE(second_b->connect(second_a->address()));
  ASSERT_TRUE(connect(a, b));
  Put put = a.put_to(b, 0, 8);
  put.tells = 1;
  ASSERT_EQ(second_a->put(std::span(&put, 1)).value(), 1u);
  ASSERT_TRUE(b.wait([&] { return !b.told.empty(); }));
  second_a.reset();
  EXPECT_EQ(a.adapter->make_channel(64).value()->index(), 1);  // the place is free again
}

TEST_F(VerbsChannels, ThatDoNotFitIntoTheCompletionQueueAreRefused) {
  test::FakeNetwork network;
  network.max_entries = 256;
  use(network);
  const auto adapter = test::open_first(settings_for("=fake_0"), 0, 3).value();
  const auto first = adapter->make_channel(64);
  ASSERT_TRUE(first) << first.error().message;
  const auto second = adapter->make_channel(64);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("fake_0 port 1: its completion queue has 256 entries"));
}

}  // namespace
}  // namespace wreath
