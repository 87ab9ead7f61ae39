// Tests the bytes that calls hand to transports: with a pinned algorithm, their sum over all ranks is the closed form
// of its paper.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"

namespace wreath::wire_bytes_moved {
namespace {

using test::LocalRanks;

struct Pinned {
  const char* transport;
  const char* algorithm;
  Collective collective;
  int ranks;
  const char* formula_name;
  // Returns the bytes over all ranks for a vector of `bytes`. In calls that move blocks, the vector holds all blocks.
  std::uint64_t (*formula)(std::uint64_t ranks, std::uint64_t bytes);
};

std::ostream& operator<<(std::ostream& out, const Pinned& pinned) {
  return out << pinned.transport << " " << pinned.algorithm << " " << name(pinned.collective) << " of " << pinned.ranks;
}

// Makes this rank's call on `count` floats a rank, or a block.
Status call(Communicator& own, Collective collective, std::size_t count) {
  Call call;
  call.collective = collective;
  call.dtype = DataType::Float32;
  call.count = count;
  const std::size_t whole = count * static_cast<std::size_t>(own.ranks());
  const std::vector<float> input(whole, 1.0f);
  std::vector<float> output(whole);
  call.input = reinterpret_cast<const std::byte*>(input.data());
  call.output = reinterpret_cast<std::byte*>(output.data());
  return own.run(call);
}

WireBytes operator+(const WireBytes& a, const WireBytes& b) { return {a.sent + b.sent, a.loaded + b.loaded}; }

// Returns the bytes that all ranks together move in one call of each count.
WireBytes moved(const Pinned& pinned, const std::vector<std::size_t>& counts, const char* executor) {
  CommunicatorOptions options;
  if (*pinned.transport != '\0') options.transports = {pinned.transport};
  options.overrides.algorithm = pinned.algorithm;
  options.overrides.executor = executor;
  options.overrides.tile_bytes = 16384;
  LocalRanks ranks(pinned.ranks, options);
  std::mutex mutex;
  WireBytes sum;
  ranks.run([&](Communicator& own) {
    for (const std::size_t count : counts) EXPECT_TRUE(call(own, pinned.collective, count));
    const std::lock_guard lock(mutex);
    sum = sum + own.wire_bytes(pinned.collective);
    for (const Collective other : all_collectives()) {
      if (other == pinned.collective) continue;
      EXPECT_EQ(own.wire_bytes(other).sent + own.wire_bytes(other).loaded, 0u) << name(other);
    }
  });
  return sum;
}

bool gives_blocks(Collective collective) {
  return collective == Collective::ReduceScatter || collective == Collective::AllGather ||
         collective == Collective::AllToAll;
}

class WireBytesOf : public testing::TestWithParam<Pinned> {};

TEST_P(WireBytesOf, APinnedAlgorithmAreItsClosedForm) {
  const Pinned& pinned = GetParam();
  const std::vector<std::size_t> counts = {1, 7, 1001, 40'009, 65'536};
  const auto ranks = static_cast<std::uint64_t>(pinned.ranks);
  std::uint64_t expected = 0;
  for (const std::size_t count : counts) {
    expected += pinned.formula(ranks, (gives_blocks(pinned.collective) ? ranks : 1) * count * sizeof(float));
  }
  // The algorithm "ring" has a handwritten loop.
  const bool by_hand = std::string(pinned.algorithm) == "ring";
  for (const char* executor : by_hand ? std::vector{"steps", "handwritten"} : std::vector{"steps"}) {
    const WireBytes bytes = moved(pinned, counts, executor);
    EXPECT_EQ(bytes.sent, expected) << pinned.formula_name << ", " << executor;
    EXPECT_EQ(bytes.loaded, 0u);
  }
}

std::vector<Pinned> cases() {
  std::vector<Pinned> all;
  const auto twice = [](std::uint64_t n, std::uint64_t s) { return 2 * (n - 1) * s; };
  const auto once = [](std::uint64_t n, std::uint64_t s) { return (n - 1) * s; };
  const auto of_all = [](std::uint64_t n, std::uint64_t s) { return n * (n - 1) * s; };
  for (const char* transport : {"tcp", "shm", "inproc"}) {
    for (const int ranks : {2, 3, 4}) {
      all.push_back({transport, "ring", Collective::AllReduce, ranks, "2 (n - 1) S", twice});
      all.push_back({transport, "one_shot", Collective::AllReduce, ranks, "n (n - 1) S", of_all});
      all.push_back({transport, "ring", Collective::ReduceScatter, ranks, "(n - 1) S", once});
      all.push_back({transport, "ring", Collective::AllGather, ranks, "(n - 1) S", once});
      all.push_back({transport, "chain", Collective::Broadcast, ranks, "(n - 1) S", once});
      // The inputs of all ranks hold n S bytes together.
      all.push_back({transport, "pairwise", Collective::AllToAll, ranks, "(n - 1) / n of n S", once});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, WireBytesOf, testing::ValuesIn(cases()), [](const auto& of) {
  return std::string(of.param.transport) + "_" + of.param.algorithm + "_" + std::string(name(of.param.collective)) +
         "_" + std::to_string(of.param.ranks);
});

// Without a pinned algorithm small calls are loads: each rank loads the message of every other rank.
TEST(WireBytes, SmallCallsOverSharedMemoryCountWhatIsLoaded) {
  LocalRanks ranks(3, {});
  ranks.run([](Communicator& own) {
    for (const std::size_t count : {1u, 5u, 5u, 100u, 1000u}) EXPECT_TRUE(call(own, Collective::AllReduce, count));
    const WireBytes bytes = own.wire_bytes(Collective::AllReduce);
    EXPECT_EQ(bytes.loaded, 2 * (1 + 5 + 5 + 100 + 1000) * sizeof(float));
    EXPECT_EQ(bytes.sent, 0u);
    EXPECT_TRUE(call(own, Collective::AllToAll, 10));
    EXPECT_EQ(own.wire_bytes(Collective::AllToAll).loaded, 2 * 10 * sizeof(float));
  });
}

TEST(WireBytes, SendsCountAtTheSender) {
  for (const char* transport : {"tcp", "shm", "inproc"}) {
    CommunicatorOptions options;
    options.transports = {transport};
    LocalRanks ranks(2, options);
    ranks.run([](Communicator& own) {
      for (const std::size_t count : {1u, 3u, 5000u, 200001u}) {
        std::vector<float> message(count);
        if (own.rank() == 0) {
          EXPECT_TRUE(own.send(std::span<const float>(message), 1));
        } else {
          EXPECT_TRUE(own.recv(std::span(message), 0));
        }
      }
      const WireBytes bytes = own.wire_bytes(Collective::Exchange);
      EXPECT_EQ(bytes.sent, own.rank() == 0 ? (1 + 3 + 5000 + 200'001) * sizeof(float) : 0u);
      EXPECT_EQ(bytes.loaded, 0u);
    });
  }
}

TEST(WireCounts, AreThoseOfTheTransportsThatCount) {
  CommunicatorOptions options;
  options.transports = {"tcp"};
  LocalRanks ranks(2, options);
  ranks.run([](Communicator& own) {
    std::vector<float> message(1 << 16);
    const bool sends = own.rank() == 0;
    EXPECT_TRUE(sends ? own.send(std::span<const float>(message), 1) : own.recv(std::span(message), 0));
    const std::vector<WireCounts> all = own.wire_counts();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].transport, "tcp");
    EXPECT_EQ(all[0].bytes, sends ? message.size() * sizeof(float) : 0);
    ASSERT_EQ(all[0].counts.size(), 3u);
    EXPECT_EQ(all[0].counts[0].name, "messages");
    EXPECT_EQ(all[0].counts[0].number > 0, sends);
    EXPECT_EQ(all[0].counts[1].name, "sends");
    EXPECT_TRUE(!sends || all[0].counts[1].number > 0);
    EXPECT_EQ(all[0].counts[2].name, "receives");
    EXPECT_TRUE(sends || all[0].counts[2].number > 0);
  });
  for (const char* transport : {"shm", "inproc"}) {
    options.transports = {transport};
    LocalRanks mapped(2, options);
    EXPECT_TRUE(mapped.communicators()[0].wire_counts().empty()) << transport;
  }
  // The transports that could link these ranks, and do not, count nothing.
  LocalRanks any(2, {});
  EXPECT_TRUE(any.communicators()[0].wire_counts().empty()) << any.communicators()[0].transport_to(1);
  EXPECT_TRUE(Communicator().wire_counts().empty());
}

TEST(WireBytes, NothingWithoutACommunicator) { EXPECT_EQ(Communicator().wire_bytes(Collective::AllReduce).sent, 0u); }

}  // namespace
}  // namespace wreath::wire_bytes_moved
