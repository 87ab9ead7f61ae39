// Same inputs, same bits: float sums do not depend on algorithm, transport, lanes, tiles, offsets,
// memory kind or place; only on the number of ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/conformance/all_reduce/cases.hpp"
#include "tests/support/local_ranks.hpp"

namespace wreath::test {
namespace {

struct Way {
  std::string transport;
  std::string algorithm;  // empty: the tuner's choice
  int lanes = 0;
  std::size_t tile_bytes = 0;
};

std::vector<Way> ways(int ranks) {
  std::vector<Way> all;
  for (const TransportRow& transport : transports()) {
    all.push_back({std::string(transport.name), "", 0, 0});
    for (const Algorithm& row : algorithms()) {
      if (row.order != Order::Canonical || !row.supports({Collective::AllReduce, ranks, 0})) continue;
      all.push_back({std::string(transport.name), std::string(row.name), 0, 0});
      all.push_back({std::string(transport.name), std::string(row.name), 3, 4096});
    }
  }
  return all;
}

class SameBits : public testing::TestWithParam<int> {};

TEST_P(SameBits, WhateverTheWay) {
  const int n = GetParam();
  std::vector<std::size_t> counts{1, 3, 14, 15, 256, 257, 4096, 5000, 16411};
  if (n <= 4) counts.push_back((std::size_t{1} << 20) / 4 + 1);
  for (const Way& way : ways(n)) {
    CommunicatorOptions options;
    options.transports = {way.transport};
    options.algorithm = way.algorithm;
    options.lanes = way.lanes;
    options.tile_bytes = way.tile_bytes;
    LocalRanks ranks(n, options);
    for (const std::size_t count : counts) {
      const std::vector<float> expected = expected_sum<float>(n, count);
      ranks.run([&](Communicator& communicator) {
        const int rank = communicator.rank();
        const CallShape shape{count, static_cast<std::size_t>(rank % 4) * 4, static_cast<std::size_t>(rank % 5),
                              rank % 2 == 0 && count % 2 == 0, rank % 3 == 0 && count > 5000};
        EXPECT_EQ(first_wrong<float>(communicator, shape, expected), -1)
            << fmt::format("rank {} of {}, {} elements, {} {} lanes {} tile {}", rank, n, count, way.transport,
                           way.algorithm, way.lanes, way.tile_bytes);
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, testing::Values(2, 3, 4, 5, 6, 7, 8, 9, 16));

TEST(SameBitsOfLargeSums, UpToSixteenMebibytes) {
  for (const int n : {2, 3}) {
    const std::size_t count = (std::size_t{16} << 20) / 4;
    const std::vector<float> expected = expected_sum<float>(n, count);
    for (const char* transport : {"inproc", "shm", "tcp"}) {
      for (const bool shared : {false, true}) {
        CommunicatorOptions options;
        options.transports = {transport};
        LocalRanks ranks(n, options);
        ranks.run([&](Communicator& communicator) {
          EXPECT_EQ(first_wrong<float>(communicator, {count, 4, 8, communicator.rank() == 1, shared}, expected), -1)
              << transport;
        });
      }
    }
  }
}

}  // namespace
}  // namespace wreath::test
