// Tests channels of the ofi transport over providers that need no adapter: what is put arrives, ends and tells, also
// where ends stop, die or do not answer.
#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "tests/support/adapter_end.hpp"
#include "tests/support/in_child.hpp"
#include "tests/support/surroundings.hpp"
#include "transports/ofi/adapter.hpp"

namespace wreath::ofi {
namespace {

using test::connect;
using test::stop;
using ::testing::HasSubstr;

struct End : test::AdapterEnd<OfiAdapter> {
  explicit End(int ranks = 2)
      : AdapterEnd(OfiAdapter::open(std::move(find_providers(0).value().front()), ranks).value()) {}
};

class OfiChannels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto provider = find_providers(0);
    if (!provider) GTEST_SKIP() << provider.error().message << "; install libfabric1";
  }
  // Polls both ends until `done`: no end of these providers goes on alone.
  static ::testing::AssertionResult wait(End& a, End& b, const std::function<bool()>& done) {
    return a.wait([&] {
      b.poll();
      return done();
    });
  }
  // Lets `a` put all of it, as it may.
  static void put_all(End& a, End& b, std::span<const Put> puts) {
    std::size_t taken = 0;
    ASSERT_TRUE(wait(a, b, [&] {
      const auto more = a.channel->put(puts.subspan(taken));
      EXPECT_TRUE(more) << more.error().message;
      taken += more ? *more : puts.size();
      return taken >= puts.size();
    }));
  }
  // Returns a first put of so many bytes, which has ended.
  static Put put_one(End& a, End& b, std::uint32_t bytes) {
    Put put = a.put_to(b, 0, bytes);
    put_all(a, b, std::span(&put, 1));
    EXPECT_TRUE(wait(a, b, [&] { return !a.ended.empty(); }));
    return put;
  }

  test::Environment environment_{{{"WREATH_OFI_PROVIDER", GetParam()}}};
};

TEST_P(OfiChannels, PutsArriveEndAndTell) {
  End a;
  End b;
  ASSERT_TRUE(connect(a, b));
  EXPECT_FALSE(a.adapter->limits().ordered);
  EXPECT_EQ(a.adapter->limits().told_bits, 31U);
  for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<std::byte>(i * 7 + i / 251);
  std::vector<Put> puts;
  std::size_t at = 0;
  for (const std::uint32_t bytes : {1U, 64U, 4160U, 65536U, 300'000U}) {
    puts.push_back(a.put_to(b, at, bytes));
    puts.back().tells = 0x7FFF'FF00U + static_cast<std::uint32_t>(puts.size());
    puts.back().number = 100 + puts.size();
    at += bytes;
  }
  put_all(a, b, puts);
  ASSERT_TRUE(wait(a, b, [&] { return b.told.size() == puts.size() && a.ended.size() == puts.size(); }));
  EXPECT_TRUE(std::equal(b.memory.begin(), b.memory.begin() + static_cast<long>(at), a.memory.begin()));
  std::ranges::sort(b.told);
  std::ranges::sort(a.ended);
  for (std::size_t i = 0; i < puts.size(); ++i) {
    EXPECT_EQ(b.told[i], 0x7FFF'FF01U + i);
    EXPECT_EQ(a.ended[i], 101 + i);
  }
  a.ended.clear();
  put_one(a, b, 64);
  for (int i = 0; i < 100; ++i) b.poll();
  EXPECT_EQ(b.told.size(), puts.size()) << "this put tells nothing";
}

TEST_P(OfiChannels, APutOfNoBytesTells) {
  End a;
  End b;
  ASSERT_TRUE(connect(a, b));
  Put put;
  put.to = b.name.address;
  put.key = b.name.key;
  put.tells = 5;
  put.number = 9;
  const std::vector<std::byte> before = b.memory;
  put_all(a, b, std::span(&put, 1));
  ASSERT_TRUE(wait(a, b, [&] { return !b.told.empty() && !a.ended.empty(); }));
  EXPECT_EQ(b.told.front(), 5U);
  EXPECT_EQ(a.ended.front(), 9U);
  EXPECT_EQ(b.memory, before);
}

TEST_P(OfiChannels, NothingIsLostWhereTheProviderTakesNoMore) {
  End a(8);  // eight ranks share what the provider takes
  End b(8);
  ASSERT_TRUE(connect(a, b));
  constexpr std::uint32_t kPuts = 5000;
  std::vector<Put> puts;
  for (std::uint32_t i = 0; i < kPuts; ++i) {
    puts.push_back(a.put_to(b, i * 64, 64));
    puts.back().tells = i;
    puts.back().number = i;
  }
  const auto first = a.channel->put(puts);
  ASSERT_TRUE(first);
  EXPECT_LE(*first, a.adapter->limits().outstanding);
  put_all(a, b, std::span(puts).subspan(*first));
  ASSERT_TRUE(wait(a, b, [&] { return b.told.size() == kPuts && a.ended.size() == kPuts; }));
  std::vector<std::uint32_t> all(kPuts);
  std::iota(all.begin(), all.end(), 0U);
  std::ranges::sort(b.told);
  EXPECT_EQ(b.told, all);
  EXPECT_TRUE(a.lost.empty());
}

// Both ends tell the other of channels of their own.
TEST_P(OfiChannels, AWordNamesTheChannelOfItsPeer) {
  End a(4);
  End b(4);
  End c(4);
  const auto to_c = a.adapter->make_channel(64).value();
  ASSERT_TRUE(connect(a, b));
  ASSERT_TRUE(to_c->connect(c.channel->address()));
  ASSERT_TRUE(c.channel->connect(to_c->address()));
  EXPECT_EQ(a.adapter->limits().told_bits, 30U);
  std::vector<int> from(2);
  ASSERT_TRUE(wait(b, c, [&] {
    for (End* const each : {&b, &c}) {
      Put put = each->put_to(a, 0, 64);
      put.tells = each == &b ? 1 : 2;
      EXPECT_TRUE(each->channel->put(std::span(&put, 1)));
    }
    std::array<PutEvent, 16> events;
    const auto count = a.adapter->poll(events);
    EXPECT_TRUE(count);
    for (std::size_t i = 0; count && i < *count; ++i) {
      EXPECT_EQ(events[i].told, events[i].channel + 1U);
      ++from[events[i].channel];
    }
    return from[0] > 10 && from[1] > 10;
  }));
}

// A wake-up that is lost would make poll() take its ten seconds.
TEST_P(OfiChannels, TheDescriptorWakesASleeper) {
  End a;
  End b;
  ASSERT_TRUE(connect(a, b));
  constexpr std::uint32_t kRounds = 200;
  std::atomic<bool> finished = false;
  std::thread sender([&] {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 7 % 400));
      Put put = a.put_to(b, 0, 8);
      put.tells = round;
      bool taken = false;
      EXPECT_TRUE(a.wait([&] {
        const auto count = taken ? 0 : a.channel->put(std::span(&put, 1));
        EXPECT_TRUE(count);
        taken = taken || (count && *count == 1);
        return a.ended.size() > round;
      }));
    }
    finished = true;
  });
  int sleeps = 0;
  bool slept_too_long = false;
  while (b.told.size() < kRounds && !slept_too_long) {
    if (b.adapter->arm()) {
      ++sleeps;
      pollfd sleeper{b.adapter->descriptor(), POLLIN, 0};
      slept_too_long = ::poll(&sleeper, 1, 10'000) != 1;
    }
    b.poll();
  }
  EXPECT_TRUE(b.wait([&] { return b.told.size() >= kRounds; }));
  EXPECT_TRUE(b.wait([&] { return finished.load(); })) << "the sender needs the answers of this end";
  sender.join();
  EXPECT_FALSE(slept_too_long);
  EXPECT_GT(sleeps, 30);
}

TEST_P(OfiChannels, AnEndThatStopsIsNotWrittenAnyMore) {
  End a;
  End b;
  ASSERT_TRUE(connect(a, b));
  std::ranges::fill(a.memory, std::byte{1});
  std::vector<Put> puts;
  for (std::uint32_t i = 0; i < 15; ++i) {
    puts.push_back(a.put_to(b, i * 65536, 65536));
    puts.back().number = i;
  }
  ASSERT_TRUE(wait(a, b, [&] {
    EXPECT_TRUE(a.channel->put(puts));
    return a.ended.size() > 30;
  }));
  ASSERT_TRUE(stop(b));
  std::ranges::fill(b.memory, std::byte{2});
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
    if (a.lost.empty()) static_cast<void>(a.channel->put(puts));
    a.poll();
    b.poll();
  }
  EXPECT_TRUE(std::ranges::all_of(b.memory, [](std::byte each) { return each == std::byte{2}; }));
  EXPECT_TRUE(stop(a)) << "its puts end with the endpoint";
  const auto refused = a.channel->put(puts);
  EXPECT_FALSE(refused) << "a channel that stopped puts nothing";
}

TEST_P(OfiChannels, StopsWhileAPeerIsSilentLeaveNothingThatReads) {
  End a;
  End b;
  ASSERT_TRUE(connect(a, b));
  const std::vector<Put> puts(64, a.put_to(b, 0, 65536));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(a.channel->put(puts));
    a.poll();
  }
  ASSERT_TRUE(stop(a)) << "the peer has not moved";
  b.poll();
  a.ended.clear();
  a.poll();
  EXPECT_TRUE(a.ended.empty()) << "nothing is left to say";
}

// The provider may wait where its endpoint is closed (test unit_transports_ofi_slow_close).
TEST_P(OfiChannels, StopsDoNotWaitForTheProvider) {
  End a;
  End b;
  ASSERT_TRUE(connect(a, b));
  const Put put = put_one(a, b, 4096);
  EXPECT_TRUE(a.channel->put(std::span(&put, 1)));
  auto longest = std::chrono::steady_clock::duration::zero();
  EXPECT_TRUE(a.wait([&] {
    const auto begun = std::chrono::steady_clock::now();
    const bool stopped = a.channel->stop();
    longest = std::max(longest, std::chrono::steady_clock::now() - begun);
    // A thread that is about to sleep arms the adapter meanwhile.
    EXPECT_TRUE(stopped || a.adapter->arm());
    return stopped;
  }));
  EXPECT_LT(longest, std::chrono::milliseconds(500));
  EXPECT_FALSE(a.channel->put(std::span(&put, 1)));
}

// Some providers never say that a peer is gone. Those that do say it in words.
TEST_P(OfiChannels, APeerThatIsGoneIsNamedOrTheChannelStops) {
  End a;
  auto b = std::make_unique<End>();
  ASSERT_TRUE(connect(a, *b));
  const Put put = put_one(a, *b, 4096);
  b.reset();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (a.lost.empty() && std::chrono::steady_clock::now() < end) {
    if (!a.channel->put(std::span(&put, 1))) break;
    a.poll();
  }
  for (const PutEvent& event : a.lost) {
    EXPECT_THAT(event.error.message, HasSubstr("a put of 4096 bytes failed: "));
    EXPECT_EQ(event.error.code, ErrorCode::PeerLost);
    EXPECT_FALSE(event.retryable);
  }
  EXPECT_LE(a.lost.size(), 1U);
  EXPECT_TRUE(stop(a));
}

// Neither the end that stops nor the one whose peer has stopped may end its process.
TEST_P(OfiChannels, MayEndAmidAPutThatTells) {
  int amid = 0;
  for (int i = 0; i < 12; ++i) {
    SCOPED_TRACE(i);
    End a;
    auto b = std::make_unique<End>();
    ASSERT_TRUE(connect(a, *b));
    put_one(a, *b, 64);
    std::ranges::fill(a.memory, std::byte{1});
    Put put = a.put_to(*b, 64, static_cast<std::uint32_t>(a.memory.size()) - 64);
    put.tells = 1;
    ASSERT_TRUE(wait(a, *b, [&] {
      if (b->memory[64] == std::byte{1}) return true;
      EXPECT_TRUE(a.channel->put(std::span(&put, 1)));
      return false;
    }));
    if (b->memory.back() == std::byte{0}) ++amid;
    End& first = i % 2 == 0 ? *b : a;
    if (i % 4 < 2) {
      ASSERT_TRUE(stop(first));
    } else {
      first.channel.reset();
      first.adapter->close_now();
    }
    End& other = i % 2 == 0 ? a : *b;
    for (int polls = 0; polls < 100; ++polls) other.poll();
    EXPECT_LE(b->told.size(), 40U);
    ASSERT_TRUE(stop(other));
  }
  EXPECT_GT(amid, 0);
}

TEST_P(OfiChannels, CreditToAPeerThatLeftLosesNothing) {
  End a;
  auto b = std::make_unique<End>();
  ASSERT_TRUE(connect(a, *b));
  const Put put = put_one(a, *b, 64);
  Put credit;
  credit.to = put.to;
  credit.key = put.key;
  credit.tells = 1;
  credit.optional = true;
  b.reset();
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end) {
    if (!a.channel->put(std::span(&credit, 1))) break;
    a.poll();
  }
  EXPECT_TRUE(a.lost.empty());
  EXPECT_TRUE(stop(a));
}

TEST_P(OfiChannels, AddressesOfOthersAreRefused) {
  const End a;
  OfiAddress theirs = a.adapter->address();
  const auto refused = [&](const OfiAddress& address) {
    const Status connected = a.channel->connect(encode_address(address));
    return connected ? std::string() : connected.error().message;
  };
  theirs.provider = "efa";
  EXPECT_THAT(refused(theirs), HasSubstr("and efa at the peer: set WREATH_OFI_PROVIDER alike"));
  theirs = a.adapter->address();
  theirs.format += 1;
  EXPECT_THAT(refused(theirs), HasSubstr("the format of addresses is "));
  theirs = a.adapter->address();
  theirs.endpoint.pop_back();
  EXPECT_THAT(refused(theirs), HasSubstr("the length of an address is "));
  theirs = a.adapter->address();
  theirs.endpoint[0] = std::byte{10};  // AF_INET6, which has more bytes
  EXPECT_EQ(refused(theirs), "the peer's address: its family is not as here");
  theirs = a.adapter->address();
  theirs.channel = 2;
  EXPECT_EQ(refused(theirs), "the peer's address: channel 2 is out of range");
  EXPECT_EQ(refused(a.adapter->address()), "");
}

TEST_P(OfiChannels, AreNotMadeInAChildOfAFork) {
  EXPECT_EQ(test::in_child([] {
              const auto providers = find_providers(0);
              const bool said = !providers && providers.error().code == ErrorCode::Unavailable &&
                                providers.error().message.find("of which this one is a fork") != std::string::npos;
              return said ? 0 : 1;
            }),
            0);
}

// net is gone from libfabric 1.18 on, and udp has nothing to wait on.
INSTANTIATE_TEST_SUITE_P(Providers, OfiChannels, ::testing::Values("tcp;ofi_rxm", "net", "udp;ofi_rxd"),
                         [](const auto& provider) {
                           std::string name = provider.param;
                           std::ranges::replace(name, ';', '_');
                           return name;
                         });

}  // namespace
}  // namespace wreath::ofi
