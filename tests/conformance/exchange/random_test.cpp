// Tests random groups of sends and receives over every transport, with few and with all rounds resident.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/local_ranks.hpp"
#include "tests/support/processes.hpp"
#include "tests/support/random_exchange.hpp"
#include "tests/support/transports.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {
namespace {

using testing_support::rounds;

// Holds the buffers of one rank's calls.
struct RankBuffers {
  std::vector<std::vector<std::byte>> sent;      // by call
  std::vector<std::vector<std::byte>> received;  // by call
};

RankBuffers make_buffers(const RandomExchange& exchange, Rank rank) {
  RankBuffers buffers;
  for (const RandomCall& call : exchange.calls[static_cast<std::size_t>(rank)]) {
    const RandomMessage& message = exchange.messages[call.index];
    buffers.sent.push_back(call.sends ? message.data() : std::vector<std::byte>());
    buffers.received.emplace_back(call.sends ? 0 : message.bytes, std::byte{0x5A});
  }
  return buffers;
}

// Makes the calls of one rank in the open group.
void make_calls(Communicator& communicator, const RandomExchange& exchange, RankBuffers& buffers) {
  const auto& calls = exchange.calls[static_cast<std::size_t>(communicator.rank())];
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const RandomMessage& message = exchange.messages[calls[i].index];
    if (calls[i].sends) {
      communicator.send(buffers.sent[i].data(), message.bytes, DataType::Uint8, message.to).value();
    } else {
      communicator.recv(buffers.received[i].data(), message.bytes, DataType::Uint8, message.from).value();
    }
  }
}

void expect_received(const RandomExchange& exchange, Rank rank, const RankBuffers& buffers) {
  const auto& calls = exchange.calls[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].sends) continue;
    const RandomMessage& message = exchange.messages[calls[i].index];
    EXPECT_EQ(message.first_wrong(buffers.received[i]), -1)
        << message.bytes << " bytes from rank " << message.from << " to rank " << message.to;
  }
}

constexpr std::size_t kTileBytes = 4096;
constexpr std::size_t kMostBytes = 5 * kTileBytes;

// A point has a transport ("single_copy" means shm), the number of resident rounds (0 means all), and an executor.
using Point = std::tuple<std::string, int, std::string>;

class RandomExchanges : public ::testing::TestWithParam<Point> {};

CommunicatorOptions options_of(const Point& point, std::mt19937_64& random) {
  CommunicatorOptions options;
  const bool single_copy = std::get<0>(point) == "single_copy";
  options.transports = {single_copy ? "shm" : std::get<0>(point)};
  options.overrides.single_copy_bytes = single_copy ? kTileBytes / 2 : 0;  // some tiles are so large, some are not
  options.overrides.exchange_rounds = std::get<1>(point);
  options.overrides.executor = std::get<2>(point);
  options.overrides.slot_count = 1U << (random() % 3);
  options.overrides.buffer_bytes = std::size_t{1} << 20;  // small slots: messages have several tiles
  return options;
}

TEST_P(RandomExchanges, ArriveWhole) {
  // Each point gets so many groups, shared by its eight numbers of ranks.
  const int groups = rounds(40, 1120);
  for (int ranks = 2; ranks <= 9; ++ranks) {
    std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
    LocalRanks job(ranks, options_of(GetParam(), random));
    std::vector<RandomExchange> exchanges;
    for (int i = 0; i < groups / 8; ++i) exchanges.push_back(random_exchange(ranks, random, kTileBytes, kMostBytes));
    job.run([&](Communicator& communicator) {
      for (const RandomExchange& exchange : exchanges) {
        RankBuffers buffers = make_buffers(exchange, communicator.rank());
        Group group;
        make_calls(communicator, exchange, buffers);
        group.run().value();
        expect_received(exchange, communicator.rank(), buffers);
      }
    });
  }
}

// One thread makes the calls of all ranks.
TEST_P(RandomExchanges, ArriveWholeWhenOneThreadMakesThemAll) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    std::mt19937_64 random(100 + static_cast<std::uint64_t>(ranks));
    LocalRanks job(ranks, options_of(GetParam(), random));
    for (int i = 0; i < rounds(3, 30); ++i) {
      const RandomExchange exchange = random_exchange(ranks, random, kTileBytes, kMostBytes);
      std::vector<RankBuffers> buffers;
      for (int rank = 0; rank < ranks; ++rank) buffers.push_back(make_buffers(exchange, rank));
      Group group;
      for (Communicator& communicator : job.communicators()) {
        make_calls(communicator, exchange, buffers[static_cast<std::size_t>(communicator.rank())]);
      }
      group.run().value();
      for (int rank = 0; rank < ranks; ++rank) {
        expect_received(exchange, rank, buffers[static_cast<std::size_t>(rank)]);
      }
    }
  }
}

std::vector<std::string> ways() {
  std::vector<std::string> all = usable_transports();
  all.emplace_back("single_copy");
  return all;
}

INSTANTIATE_TEST_SUITE_P(Over, RandomExchanges,
                         ::testing::Combine(::testing::ValuesIn(ways()), ::testing::Values(1, 2, 8),
                                            ::testing::Values("steps", "handwritten")),
                         [](const auto& point) {
                           return std::get<0>(point.param) + "_" + std::to_string(std::get<1>(point.param)) +
                                  "_rounds_" + std::get<2>(point.param);
                         });

}  // namespace
}  // namespace wreath::test
