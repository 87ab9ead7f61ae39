// simulate() gives the known times of known schedules, and measures the cost of every row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "src/schedule/geometry.hpp"
#include "wreath/plan.hpp"

namespace wreath {
namespace {

std::string label(const Algorithm& row, const Problem& problem) {
  return std::string(name(row.collective)) + " " + std::string(row.name) + " on " + std::to_string(problem.ranks) +
         " ranks, root " + std::to_string(problem.root);
}

// Returns a shape of one tile: blocks of 60 elements, or 60 elements in each part of a vector.
VerifyOptions one_tile(const Algorithm& row, const Problem& problem) {
  VerifyOptions shape;
  const std::uint64_t parts = moves_blocks(row.collective) ? 1 : row.build(problem, 0).parts();
  shape.count = 60 * parts;
  shape.tile_bytes = 1 << 20;
  shape.slots = kUnlimited;
  return shape;
}

class Costs : public testing::TestWithParam<Algorithm> {};

TEST_P(Costs, AreWhatSimulateMeasures) {
  const Algorithm& row = GetParam();
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33}) {
    for (Rank root = 0; root < (has_root(row.collective) ? ranks : 1); ++root) {
      const Problem problem{row.collective, ranks, root};
      if (!row.supports(problem)) continue;
      const VerifyOptions shape = one_tile(row, problem);
      const Simulated measured = simulate(row, problem, shape).value();
      const Cost cost = row.cost(problem);
      const std::uint64_t blocks = moves_blocks(row.collective) ? static_cast<unsigned>(ranks) : 1;
      const auto unit = static_cast<double>(shape.count * blocks * shape.element_bytes);
      EXPECT_EQ(cost.steps, measured.steps) << label(row, problem);
      EXPECT_NEAR(cost.bytes, static_cast<double>(measured.bytes) / unit, 1e-9) << label(row, problem);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Costs,
                         testing::ValuesIn(std::vector<Algorithm>(algorithms().begin(), algorithms().end())),
                         [](const auto& row) {
                           return std::string(name(row.param.collective)) + "_" + std::string(row.param.name);
                         });

constexpr FlatModel kModel{.latency_us = 3, .bandwidth_gb_s = 1, .reduction_gb_s = 2, .copy_gb_s = 4};

Simulated time_of(Collective collective, std::string_view algorithm, int ranks, std::uint64_t bytes,
                  std::uint64_t tile_bytes = 1 << 30, std::uint32_t slots = kUnlimited,
                  const FlatModel& model = kModel) {
  VerifyOptions shape;
  shape.element_bytes = 1;
  shape.count = bytes;
  shape.tile_bytes = tile_bytes;
  shape.slots = slots;
  return simulate(*find_algorithm(collective, algorithm), {collective, ranks}, shape, model).value();
}

TEST(Simulate, AddsLatencyTransferAndCopyOfAMessage) {
  // The message takes 1 us on the wire, 3 us of latency and 0.25 us of copying into the output. Rank 0 copies its own
  // data meanwhile.
  const Simulated simulated = time_of(Collective::Broadcast, "chain", 2, 1000);
  EXPECT_NEAR(simulated.time_us, 1 + 3 + 0.25, 1e-9);
  EXPECT_EQ(simulated.bytes, 1000u);
  EXPECT_EQ(simulated.messages, 1u);
  EXPECT_EQ(simulated.steps, 1);
}

TEST(Simulate, LetsASendersMessagesLeaveOneAfterTheOther) {
  EXPECT_NEAR(time_of(Collective::Broadcast, "direct", 5, 1000).time_us, 4 * 1 + 3 + 0.25, 1e-9);
}

TEST(Simulate, OverlapsTilesOfAChain) {
  // A tile of 1000 bytes takes 1 us on the wire, 3 us of latency and 0.25 us of copying on each hop. The 8 tiles follow
  // each other at 1 us.
  const double whole = time_of(Collective::Broadcast, "chain", 4, 8000).time_us;
  const double tiles = time_of(Collective::Broadcast, "chain", 4, 8000, 1000).time_us;
  EXPECT_NEAR(whole, 3 * (8 + 3 + 2), 1e-9);
  EXPECT_NEAR(tiles, 3 * (1 + 3 + 0.25) + 7, 1e-9);
}

TEST(Simulate, WaitsForSlots) {
  EXPECT_GT(time_of(Collective::Broadcast, "chain", 2, 16000, 1000, 1).time_us,
            time_of(Collective::Broadcast, "chain", 2, 16000, 1000, 8).time_us + 10);
}

TEST(Simulate, RefusesWhatTheRowDoesNotSupport) {
  VerifyOptions shape;
  EXPECT_FALSE(simulate(*find_algorithm(Collective::AllReduce, "ring"), {Collective::AllReduce, 0}, shape));
  shape.element_bytes = 0;
  EXPECT_FALSE(simulate(*find_algorithm(Collective::AllReduce, "ring"), {Collective::AllReduce, 2}, shape));
}

TEST(Simulate, CopiesWhatIsSentWhereMessagesAreStaged) {
  FlatModel staged = kModel;
  staged.staged = true;
  EXPECT_NEAR(time_of(Collective::Broadcast, "chain", 2, 1000, 1 << 30, kUnlimited, staged).time_us,
              0.25 + 1 + 3 + 0.25, 1e-9);
}

TEST(Simulate, TakesBothEndsTimeForEachMessage) {
  FlatModel busy = kModel;
  // This is more than the 1 us on the wire, so that the link waits for the sender.
  busy.message_us = 2;
  EXPECT_NEAR(time_of(Collective::Broadcast, "direct", 4, 1000, 1 << 30, kUnlimited, busy).time_us,
              3 * 2 + 1 + 3 + 2 + 0.25, 1e-9);
}

// The lanes of a rank work at the same time, or one after the other on one core.
TEST(Simulate, LanesOfARankShareItsCore) {
  FlatModel machine = kModel;
  machine.staged = true;
  machine.latency_us = 0;
  machine.bandwidth_gb_s = 1e9;
  const double apart = time_of(Collective::AllReduce, "two_shot", 2, 8000, 1000, kUnlimited, machine).time_us;
  machine.one_core = true;
  const double shared = time_of(Collective::AllReduce, "two_shot", 2, 8000, 1000, kUnlimited, machine).time_us;
  // Each rank handles half of the elements: it stages them, sums two sources, stages the sum, and copies the other half
  // out.
  EXPECT_NEAR(shared, 4000 * (1 / 4e3 + 2 / 2e3 + 1 / 4e3 + 1 / 4e3), 0.1);
  EXPECT_LT(apart, 0.8 * shared);
}

}  // namespace
}  // namespace wreath
