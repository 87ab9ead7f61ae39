// Every algorithm over every transport: right sums for odd counts, places, lanes, tiles and dtypes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/conformance/all_reduce/cases.hpp"
#include "tests/support/local_ranks.hpp"

namespace wreath::test {
namespace {

struct Row {
  std::string algorithm;
  std::string transport;
};

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const Algorithm& algorithm : algorithms()) {
    for (const TransportRow& transport : transports())
      all.push_back({std::string(algorithm.name), std::string(transport.name)});
  }
  return all;
}

CommunicatorOptions options_of(const Row& row) {
  CommunicatorOptions options;
  options.transports = {row.transport};
  options.algorithm = row.algorithm;
  return options;
}

bool serves(const Row& row, int ranks) {
  return find_algorithm(Collective::AllReduce, row.algorithm)->supports({Collective::AllReduce, ranks, 0});
}

class AllReduce : public testing::TestWithParam<Row> {};

// Integers are exact in any order, so rows outside the canonical order are held to them, too.
template <typename T>
void expect_right(LocalRanks& ranks, const CallShape& shape) {
  const std::vector<T> expected = expected_sum<T>(ranks.ranks(), shape.count);
  ranks.run([&](Communicator& communicator) {
    CallShape mine = shape;  // ranks differ in alignment
    mine.input_offset += static_cast<std::size_t>(communicator.rank()) % 3 * 4;
    EXPECT_EQ(first_wrong<T>(communicator, mine, expected), -1)
        << fmt::format("rank {} of {}, {} x {}, offset {}, in place {}", communicator.rank(), ranks.ranks(),
                       name(dtype_of<T>), shape.count, shape.input_offset, shape.in_place);
  });
}

TEST_P(AllReduce, SumsOddCountsOnOneToSeventeenRanks) {
  for (const int n : {1, 2, 3, 4, 5, 7, 8, 16, 17}) {
    if (!serves(GetParam(), n)) continue;
    LocalRanks ranks(n, options_of(GetParam()));
    const auto size = static_cast<std::size_t>(n);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, size - 1, size, size + 1, std::size_t{257}, std::size_t{4099}}) {
      for (const bool in_place : {false, true}) expect_right<std::int32_t>(ranks, {count, 0, 0, in_place, false});
    }
  }
}

TEST_P(AllReduce, SumsManyTilesAtAnyOffset) {
  for (const int n : {2, 3, 6}) {
    CommunicatorOptions options = options_of(GetParam());
    options.tile_bytes = 4096;
    LocalRanks ranks(n, options);
    for (const std::size_t count : {std::size_t{1024}, std::size_t{12289}, std::size_t{70001}}) {
      for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{60}}) {
        for (const bool in_place : {false, true})
          expect_right<std::int32_t>(ranks, {count, offset, 3 * offset, in_place, false});
      }
    }
  }
}

TEST_P(AllReduce, SumsOnSeveralDataLanes) {
  for (const int lanes : {2, 3, 5}) {
    CommunicatorOptions options = options_of(GetParam());
    options.lanes = lanes;
    options.tile_bytes = 8192;
    LocalRanks ranks(3, options);
    for (const std::size_t count : {std::size_t{1}, std::size_t{47}, std::size_t{30011}}) {
      expect_right<std::int32_t>(ranks, {count, 0, 0, false, false});
      expect_right<std::int32_t>(ranks, {count, 0, 0, true, false});
    }
  }
}

TEST_P(AllReduce, WorksWithOneSlotAndAcrossTheWrapOfSequences) {
  for (const std::uint32_t slots : {1u, 2u, 8u}) {
    CommunicatorOptions options = options_of(GetParam());
    options.slot_count = slots;
    options.tile_bytes = 4096;
    options.first_sequence = 0xFFFFFFFDu;
    LocalRanks ranks(4, options);
    for (int repeat = 0; repeat < 3; ++repeat) expect_right<std::int32_t>(ranks, {20'000, 0, 0, repeat == 1, false});
  }
}

TEST_P(AllReduce, ReadsMemoryThatPeersMap) {
  LocalRanks ranks(3, options_of(GetParam()));
  const std::size_t count = (std::size_t{3} << 20) / 4 + 5;
  const std::vector<std::int32_t> expected = expected_sum<std::int32_t>(3, count);
  for (const bool in_place : {false, true}) {
    ranks.run([&](Communicator& communicator) {
      const bool shared = communicator.rank() != 1;  // ranks differ in memory kind
      EXPECT_EQ(first_wrong<std::int32_t>(communicator, {count, 0, 0, in_place, shared}, expected), -1);
    });
  }
}

TEST_P(AllReduce, RunsQueuedCallsInOrder) {
  LocalRanks ranks(3, options_of(GetParam()));
  ranks.run([&](Communicator& communicator) {
    constexpr int kCalls = 20;
    std::vector<std::vector<std::int32_t>> buffers;
    std::vector<Work> works;
    for (int call = 0; call < kCalls; ++call) {
      buffers.emplace_back(static_cast<std::size_t>(call * 997 + 1), communicator.rank() + call);
      std::vector<std::int32_t>& buffer = buffers.back();
      works.push_back(
          communicator.all_reduce_async(buffer.data(), buffer.data(), buffer.size(), DataType::Int32).value());
    }
    for (Work& work : works) work.wait().value();
    for (int call = 0; call < kCalls; ++call) {
      for (const std::int32_t value : buffers[static_cast<std::size_t>(call)]) ASSERT_EQ(value, 3 + 3 * call);
    }
  });
}

// A rank that is done may leave while others still read what it sent.
TEST(AllReduceThenLeave, LosesNothing) {
  for (const char* transport : {"inproc", "shm", "tcp"}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      CommunicatorOptions options;
      options.transports = {transport};
      LocalRanks ranks(3, options);
      const std::vector<std::int32_t> expected = expected_sum<std::int32_t>(3, 300'000);
      ranks.run([&](Communicator& communicator) {
        Communicator mine = std::move(communicator);
        EXPECT_EQ(first_wrong<std::int32_t>(mine, {300'000, 0, 0, false, repeat % 2 == 0}, expected), -1) << transport;
      });
    }
  }
}

TEST(AllReduceByDefault, LinksThreadsInProcessAndSums) {
  LocalRanks ranks(4, {});
  EXPECT_EQ(ranks.communicators()[0].transport_to(3), "inproc");
  for (const std::size_t count : {std::size_t{1}, std::size_t{10'000}, std::size_t{100'000}}) {
    expect_right<std::int32_t>(ranks, {count, 0, 0, false, false});
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, AllReduce, testing::ValuesIn(rows()),
                         [](const auto& row) { return row.param.algorithm + "_" + row.param.transport; });

}  // namespace
}  // namespace wreath::test
