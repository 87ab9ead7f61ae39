// Calls over several adapters of libfabric go on when some are lost, over the stand-in that spoils them: results are
// exact, the log says it, and an adapter comes back.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "tests/support/adapter_end.hpp"
#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/shuffled_fabric.hpp"
#include "tests/support/surroundings.hpp"
#include "transports/ofi/adapter.hpp"
#include "wreath/memory.hpp"

namespace wreath::ofi {
namespace {

using test::FabricFault;
using test::LocalRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::eventually;
using testing_support::kSlower;

constexpr std::size_t kCount = 1 << 16;

class OfiRails : public ::testing::Test {
 protected:
  void SetUp() override {
    if (fabric_.spoil == nullptr)
      GTEST_SKIP() << "this libfabric spoils no adapters; run it by ctest -R unit_transports_ofi_rails";
  }
  // Offers so many adapters, which a rank takes.
  void surround(const char* adapters) {
    environment_.reset();
    environment_ = std::make_unique<test::Environment>(std::vector<std::pair<std::string, std::string>>{
        {"WREATH_OFI_PROVIDER", "tcp;ofi_rxm"}, {"WREATH_RAILS", adapters}, {"SHUFFLED_FABRIC_ADAPTERS", adapters}});
  }
  // Makes ranks that take so many adapters each.
  void make(int ranks, const char* adapters = "2", std::int64_t stall_ms = 30'000) {
    surround(adapters);
    CommunicatorOptions options;
    options.transports = {"ofi"};
    options.timeouts.stall_ms = stall_ms * kSlower;
    options.overrides.tile_bytes = 128 * 1024;
    ranks_ = std::make_unique<LocalRanks>(ranks, options);
    for (int rank = 0; rank < ranks; ++rank) memory_.push_back(allocate(kCount * 4).value());
  }
  // Makes so many calls of each rank, whose results are compared. Returns the first error.
  Status reduce(int calls) {
    std::vector<Status> ended(memory_.size());
    ranks_->run([&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      const std::int32_t n = communicator.ranks();
      const std::span<std::int32_t> values = memory_[rank].as<std::int32_t>();
      for (int call = 0; call < calls && ended[rank]; ++call) {
        std::iota(values.begin(), values.end(), communicator.rank() + call);
        ended[rank] = communicator.all_reduce(values);
        for (std::size_t i = 0; i < kCount && ended[rank]; ++i) {
          ASSERT_EQ(values[i], n * (static_cast<std::int32_t>(i) + call) + n * (n - 1) / 2) << "element " << i;
        }
      }
    });
    for (const Status& each : ended) {
      if (!each) return each;
    }
    return {};
  }
  // Makes calls, of which some are at work when the adapter is spoilt.
  void reduce_while_spoilt(int rank, int adapter, FabricFault fault, int calls = 30) {
    ASSERT_TRUE(reduce(2));
    std::jthread spoiler([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      fabric_.spoil(rank, adapter, fault);
    });
    const Status reduced = reduce(calls);
    spoiler.join();
    ASSERT_TRUE(reduced) << reduced.error().message;
    const Status after = reduce(1);
    ASSERT_TRUE(after) << after.error().message;
  }
  std::string path(int rank, int peer) const {
    return ranks_->communicators()[static_cast<std::size_t>(rank)].transport_to(peer);
  }
  // Names the ways that lack an adapter.
  std::string lost() const {
    std::string all;
    for (int rank = 0; rank < ranks_->ranks(); ++rank) {
      for (int peer = 0; peer < ranks_->ranks(); ++peer) {
        const std::string way = rank == peer ? "" : path(rank, peer);
        if (way.find("lost") != std::string::npos) all += fmt::format("{} to {}: {}\n", rank, peer, way);
      }
    }
    return all;
  }
  // Makes calls until every rank's way has all adapters again.
  ::testing::AssertionResult comes_back() {
    const bool back = eventually(30'000 * kSlower, [&] {
      EXPECT_TRUE(reduce(1));
      return lost().empty();
    });
    if (back) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << lost();
  }

  const test::ShuffledFabric fabric_ = test::ShuffledFabric::find();
  std::unique_ptr<test::Environment> environment_;
  std::vector<Memory> memory_;
  std::unique_ptr<LocalRanks> ranks_;
};

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST_F(OfiRails, GoOnWithoutTheOneThatFailsAndTakeItBack) {
  make(2);
  EXPECT_THAT(path(0, 1), HasSubstr("ofi over tcp;ofi_rxm fake_0 + tcp;ofi_rxm fake_1"));
  ::testing::internal::CaptureStderr();
  reduce_while_spoilt(0, 1, FabricFault::Fails);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "tcp;ofi_rxm fake_1 to rank 1: the adapter is lost: "), 1) << said;
  EXPECT_EQ(count(said, "tcp;ofi_rxm fake_1 to rank 0: the adapter is lost: "), 1) << said;
  EXPECT_EQ(count(said, "; its messages go over tcp;ofi_rxm fake_0"), 2) << said;
  for (const int rank : {0, 1}) {
    EXPECT_THAT(path(rank, 1 - rank), HasSubstr("ofi over tcp;ofi_rxm fake_0, lost: tcp;ofi_rxm fake_1"));
  }
  fabric_.spoil(0, 1, FabricFault::None);
  EXPECT_TRUE(comes_back());
}

// Its peer closes an endpoint that it shares with a third rank.
TEST_F(OfiRails, OfThreeRanksGoOn) {
  make(3);
  reduce_while_spoilt(1, 0, FabricFault::Fails);
  const auto is_lost = [this](int rank, int peer) { return path(rank, peer).find("lost: ") != std::string::npos; };
  const auto has_lost_it = [&](int rank) { return is_lost(rank, (rank + 1) % 3) && is_lost(rank, (rank + 2) % 3); };
  EXPECT_TRUE(has_lost_it(0) || has_lost_it(1) || has_lost_it(2)) << "the adapter is of one of them";
  fabric_.spoil(1, 0, FabricFault::None);
  EXPECT_TRUE(comes_back());
}

// Writes that failed here may have arrived there, may do so late, or never do.
class OfiRailsFault : public OfiRails, public ::testing::WithParamInterface<FabricFault> {};

TEST_P(OfiRailsFault, MayComeAtAnyTime) {
  for (int round = 0; round < testing_support::rounds(12, 100); ++round) {
    make(2 + round % 2);
    ASSERT_TRUE(reduce(1));
    std::jthread spoiler([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(1'700 * round));
      fabric_.spoil(round / 2 % 2, round / 4 % 2, GetParam());
    });
    const Status reduced = reduce(12);
    spoiler.join();
    ASSERT_TRUE(reduced) << round << ": " << reduced.error().message;
    ranks_.reset();
    memory_.clear();
  }
}

INSTANTIATE_TEST_SUITE_P(OfiRails, OfiRailsFault, ::testing::Values(FabricFault::FailsOnce, FabricFault::Fails));

// A rank that only receives puts credit and the names of places. One of the two is that rank.
class OfiRailsOneWay : public OfiRails, public ::testing::WithParamInterface<int> {};

TEST_P(OfiRailsOneWay, MayFailAtEitherEnd) {
  constexpr std::size_t kBytes = 100'000;
  constexpr int kMessages = 300;
  make(2, "2", 4'000);
  std::atomic<int> received = 0;
  ranks_->run([&](Communicator& communicator) {
    std::vector<std::byte> message(kBytes);
    for (int i = 0; i < kMessages; ++i) {
      if (communicator.rank() == 0) std::ranges::fill(message, static_cast<std::byte>(i));
      const Status done = communicator.rank() == 0 ? communicator.send(message.data(), kBytes, DataType::Uint8, 1)
                                                   : communicator.recv(message.data(), kBytes, DataType::Uint8, 0);
      ASSERT_TRUE(done) << i << ": " << done.error().message;
      if (communicator.rank() == 1 && i == kMessages / 3) fabric_.spoil(GetParam(), 1, FabricFault::Fails);
      if (communicator.rank() == 0) continue;
      ASSERT_TRUE(std::ranges::all_of(message, [i](std::byte each) { return each == static_cast<std::byte>(i); })) << i;
      ++received;
    }
  });
  EXPECT_EQ(received, kMessages);
  EXPECT_THAT(path(1, 0), HasSubstr("lost: tcp;ofi_rxm fake_1"));
}

INSTANTIATE_TEST_SUITE_P(OfiRails, OfiRailsOneWay, ::testing::Values(0, 1));

// Two adapters, of ranks that could have others.
class OfiRailEnds : public OfiRails {
 protected:
  using End = test::AdapterEnd<OfiAdapter>;

  void SetUp() override {
    OfiRails::SetUp();
    if (IsSkipped()) return;
    surround("2");
    auto providers = find_providers(0).value();
    a_ = std::make_unique<End>(OfiAdapter::open(std::move(providers[0]), 4, true).value());
    b_ = std::make_unique<End>(OfiAdapter::open(std::move(providers[1]), 4, true).value());
    ASSERT_TRUE(test::connect(*a_, *b_));
  }
  Put put_that_tells() const {
    Put put = a_->put_to(*b_, 0, 64);
    put.tells = 7;
    return put;
  }

  std::unique_ptr<End> a_;
  std::unique_ptr<End> b_;
};

// A rank whose queue gives slowly what was told it takes all of that, and the other one has nothing to take.
TEST_F(OfiRailEnds, SettleOnceAllIsToldThatHasEnded) {
  constexpr std::uint32_t kPuts = 40;
  End& a = *a_;
  End& b = *b_;
  fabric_.spoil(0, 1, FabricFault::Fails);
  const Put put = put_that_tells();
  std::uint32_t taken = 0;
  ASSERT_TRUE(a.wait([&] {
    b.poll();
    if (taken < kPuts) taken += static_cast<std::uint32_t>(a.channel->put(std::span(&put, 1)).value());
    return a.ended.size() == kPuts;
  }));
  ASSERT_LT(b.told.size(), kPuts);
  ASSERT_TRUE(a.channel->pause() && b.channel->pause());
  EXPECT_EQ(a.channel->tells(), kPuts);
  EXPECT_TRUE(a.channel->settle(b.channel->tells()));
  EXPECT_TRUE(b.wait([&] { return b.channel->settle(kPuts); }));
  EXPECT_EQ(b.told.size(), kPuts);
  EXPECT_TRUE(a.channel->reset()) << "nothing was lost, and nothing is opened anew";
}

// An endpoint stays open after a loss while another channel has something under way there. Puts that end meanwhile
// count no more: their peer was told how many did, and may close its own at any time.
TEST_F(OfiRailEnds, EndNoPutsAfterAPause) {
  constexpr std::uint32_t kPuts = 20;
  End& a = *a_;
  End& b = *b_;
  const auto busy = a.adapter->make_channel(64).value();
  const auto ready = a.adapter->make_channel(64).value();
  ASSERT_TRUE(busy->connect(b.channel->address()));
  const Put put = put_that_tells();
  for (std::uint32_t taken = 0; taken < kPuts;) {
    taken += static_cast<std::uint32_t>(a.channel->put(std::span(&put, 1)).value());
  }
  fabric_.spoil(0, 0, FabricFault::FailsOnce);
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1U);
  ASSERT_TRUE(a.wait([&] { return !a.lost.empty(); }));
  ASSERT_TRUE(a.channel->pause());
  EXPECT_EQ(a.channel->tells(), Channel::kUnknownTells);
  const std::size_t ended = a.ended.size();
  EXPECT_FALSE(a.channel->settle(0));
  ASSERT_TRUE(a.wait([&] {
    b.poll();
    return b.told.size() >= kPuts;
  }));
  for (int i = 0; i < 200; ++i) {
    a.poll();
    b.poll();
  }
  EXPECT_EQ(a.ended.size(), ended);
  EXPECT_FALSE(a.channel->settle(0));
  ASSERT_TRUE(busy->pause());
  EXPECT_EQ(busy->tells(), 0U) << "it is lost for another one's sake";
  const auto told = std::ranges::find_if(a.lost, [&](const PutEvent& each) { return each.channel == busy->index(); });
  ASSERT_NE(told, a.lost.end());
  EXPECT_EQ(told->error.code, ErrorCode::System) << "its peer has no part in it";
  EXPECT_THAT(told->error.message, AllOf(HasSubstr("opened anew for a link to another rank: a put of 64 bytes failed"),
                                         HasSubstr("the adapter was spoilt")));
  static_cast<void>(busy->settle(0));
  EXPECT_TRUE(a.wait([&] { return a.channel->settle(0); }));
  EXPECT_TRUE(a.adapter->usable());
  EXPECT_FALSE(ready->connect(b.channel->address())) << "the peer may have the address of the old endpoint";
  fabric_.spoil(0, 0, FabricFault::Gone);
  const auto missing = a.adapter->register_memory(a.memory, false);
  ASSERT_TRUE(missing) << "the other adapters have it";
  EXPECT_FALSE(a.channel->reset()) << "this one has not";
  a.adapter->deregister_memory(*missing);
  EXPECT_TRUE(a.channel->reset());
}

// Its link has failed, or its peer has left. It may have something under way all the same.
TEST_F(OfiRailEnds, WaitForNoChannelThatIsGivenUp) {
  End& a = *a_;
  const auto busy = a.adapter->make_channel(64).value();
  ASSERT_TRUE(busy->connect(b_->channel->address()));
  const Put put = put_that_tells();
  ASSERT_EQ(busy->put(std::span(&put, 1)).value(), 1U);
  fabric_.spoil(0, 0, FabricFault::FailsOnce);
  ASSERT_EQ(a.channel->put(std::span(&put, 1)).value(), 1U);
  ASSERT_TRUE(a.wait([&] { return !a.lost.empty(); }));
  ASSERT_TRUE(a.channel->pause());
  EXPECT_FALSE(a.channel->settle(0));
  a.poll();
  EXPECT_FALSE(a.channel->settle(0));
  busy->give_up();
  EXPECT_TRUE(a.wait([&] { return a.channel->settle(0); }));
  EXPECT_TRUE(a.channel->reset());
}

// The endpoints that two ranks have opened anew have other addresses, which a third rank takes in place of the old.
TEST_F(OfiRails, HoldNoAddressesOfClosedEndpoints) {
  constexpr std::size_t kAddresses = 3 * 2 * 2;  // of each rank and rail, the peers
  make(3);
  ASSERT_TRUE(reduce(2));
  EXPECT_EQ(fabric_.count_peers(), kAddresses);
  for (int loss = 0; loss < 2; ++loss) {
    ::testing::internal::CaptureStderr();
    fabric_.spoil(0, 1, FabricFault::FailsOnce);
    const Status reduced = reduce(5);
    const auto back = comes_back();
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(reduced) << reduced.error().message;
    ASSERT_TRUE(back);
    EXPECT_GE(count(said, "fake_1 to rank 1: the adapter is lost: "), 1) << said;
    EXPECT_EQ(fabric_.count_peers(), kAddresses);
  }
}

// The provider may give a new endpoint the address of one that another thread has just closed.
TEST_F(OfiRails, AreOpenedWhileOthersAreClosed) {
  surround("2");
  const test::Environment slow(std::vector<std::pair<std::string, std::string>>{{"SHUFFLED_FABRIC_CLOSED_MS", "20"}});
  std::jthread closer;
  for (int round = 0; round < testing_support::rounds(8, 100); ++round) {
    auto adapters = OfiAdapter::open_all(0, 2);
    ASSERT_TRUE(adapters) << adapters.error().message;
    std::vector<std::unique_ptr<test::AdapterEnd<Adapter>>> ends;
    for (auto& adapter : *adapters) ends.push_back(std::make_unique<test::AdapterEnd<Adapter>>(std::move(adapter)));
    for (const auto& end : ends) {
      end->poll();
      end->adapter->arm();
    }
    closer = std::jthread([closed = std::move(ends)]() mutable { closed.clear(); });
  }
}

// A rank that has left answers nothing. Its links hold up those of the others no longer than their own puts take.
TEST_F(OfiRails, GoOnWithoutARankThatHasLeft) {
  constexpr int kMessages = 200;
  make(3);
  ASSERT_TRUE(reduce(2));
  ranks_->communicators().pop_back();
  const auto begun = std::chrono::steady_clock::now();
  ranks_->run([&](Communicator& communicator) {
    const int peer = 1 - communicator.rank();
    std::vector<std::int32_t> message(20'000);
    for (int i = 0; i < kMessages; ++i) {
      if (communicator.rank() == 0 && i == kMessages / 4) fabric_.spoil(1, 1, FabricFault::Fails);
      std::ranges::fill(message, communicator.rank() == 0 ? i : -1);
      const Status done = communicator.rank() == 0
                              ? communicator.send(message.data(), message.size(), DataType::Int32, peer)
                              : communicator.recv(message.data(), message.size(), DataType::Int32, peer);
      ASSERT_TRUE(done) << i << ": " << done.error().message;
      ASSERT_TRUE(std::ranges::all_of(message, [i](std::int32_t each) { return each == i; })) << i;
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(15 * kSlower));
}

TEST_F(OfiRails, GoOnWhereEachRankLosesAnotherOne) {
  make(2, "3");
  ASSERT_TRUE(reduce(2));
  fabric_.spoil(0, 0, FabricFault::Fails);
  reduce_while_spoilt(1, 2, FabricFault::Fails);
  EXPECT_THAT(path(0, 1),
              AllOf(HasSubstr("ofi over tcp;ofi_rxm fake_1, lost: "), HasSubstr("fake_0 + tcp;ofi_rxm fake_2")));
  fabric_.spoil(0, 0, FabricFault::None);
  fabric_.spoil(1, 2, FabricFault::None);
  EXPECT_TRUE(comes_back());
}

// Its slots cannot be named to a peer any more, so it stays lost.
TEST_F(OfiRails, GoOnWhereMemoryIsRegisteredWithoutOne) {
  make(2);
  reduce_while_spoilt(0, 1, FabricFault::Gone);
  for (Memory& each : memory_) each = allocate(kCount * 4).value();
  ASSERT_TRUE(reduce(3));
  fabric_.spoil(0, 1, FabricFault::None);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  while (std::chrono::steady_clock::now() < end) ASSERT_TRUE(reduce(1));
  EXPECT_THAT(path(0, 1), HasSubstr("lost: tcp;ofi_rxm fake_1"));
}

TEST_F(OfiRails, AreMissedWhenTheyFallSilent) {
  make(2);
  reduce_while_spoilt(0, 1, FabricFault::Silent);
  EXPECT_THAT(path(0, 1), HasSubstr("ofi over tcp;ofi_rxm fake_0, lost: tcp;ofi_rxm fake_1"));
  fabric_.spoil(0, 1, FabricFault::None);
  EXPECT_TRUE(comes_back());
}

TEST_F(OfiRails, EndTheLinkWithTheLastOne) {
  make(2, "2", 1'500);
  ASSERT_TRUE(reduce(2));
  const auto begun = std::chrono::steady_clock::now();
  for (const int adapter : {0, 1}) fabric_.spoil(0, adapter, FabricFault::Fails);
  const Status reduced = reduce(3);
  ASSERT_FALSE(reduced);
  EXPECT_EQ(reduced.error().code, ErrorCode::PeerLost) << reduced.error().message;
  EXPECT_THAT(reduced.error().message, AllOf(HasSubstr("no new connection within"), HasSubstr("; tcp;ofi_rxm fake_0: "),
                                             HasSubstr("; tcp;ofi_rxm fake_1: ")));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20 * kSlower));
}

}  // namespace
}  // namespace wreath::ofi
