// The executor as a GPU runs it, by blocks of threads on the host device: every algorithm, all ranks at once.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/executor/grids.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath {
namespace {

struct Waits {
  const std::uint32_t* stop;
  std::uint64_t stall_ns = 0;
};

// Starts the grids of the first `ranks` ranks, each in a stream of its own, and waits for their ends.
std::vector<RankGrid> run_grids(World& world, const std::vector<RankCall>& calls, int threads, const Waits& waits) {
  std::vector<RankGrid> grids(calls.size());
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    grids[rank].stream = host_device().make_stream().value();
    grids[rank].run.stop = waits.stop;
    grids[rank].run.stall_ns = waits.stall_ns;
    launch(grids[rank], world.plan(rank), calls[rank], threads);
  }
  for (const RankGrid& grid : grids) grid.stream->synchronize().value();
  return grids;
}

// A row, and where its FIFOs lie: in memory of the host, or, linked by cuda_ipc, of the device.
using Row = std::tuple<Algorithm, FifoMemory>;
class Blocks : public testing::TestWithParam<Row> {};

std::string name_of(const testing::TestParamInfo<Row>& info) {
  const auto& [algorithm, fifos] = info.param;
  return std::string(name(algorithm.collective)) + "_" + std::string(algorithm.name) +
         (fifos == FifoMemory::Device ? "_cuda_ipc" : "");
}
INSTANTIATE_TEST_SUITE_P(Rows, Blocks,
                         testing::Combine(testing::ValuesIn(algorithms()),
                                          testing::Values(FifoMemory::Host, FifoMemory::Device)),
                         name_of);

// Two operations back to back over FIFOs of two slots.
TEST_P(Blocks, DoWhatTheCollectivePromises) {
  const auto& [algorithm, fifos] = GetParam();
  LibraryDevice* const device = fifos == FifoMemory::Device ? &host() : nullptr;
  std::mt19937_64 random(21);
  const std::uint32_t stop = 0;
  for (const int ranks : {2, 3, 5}) {
    const Problem problem{algorithm.collective, ranks, has_root(algorithm.collective) ? ranks / 2 : 0};
    if (!algorithm.supports(problem)) continue;
    for (const JobShape& shape : shapes(algorithm, ranks)) {
      const std::vector<Lowered> programs = lower_ranks(algorithm, problem, 1 + ranks % 2);
      World world(programs, {.slots = 2, .first_sequence = 0xFFFFFFFDU, .device = device});
      for (const int threads : {3, 1}) {
        Job job(algorithm, problem, programs[0], shape, random);
        ASSERT_EQ(unfinished(run_grids(world, job.calls(), threads, {&stop})), "") << ranks << " ranks";
        ASSERT_EQ(job.wrong(), "") << ranks << " ranks, " << threads << " threads, " << name(shape.dtype);
      }
    }
  }
}

// Grids of one rank after the other, none of which waits, until all are done.
std::vector<RankGrid> run_grids_in_turns(World& world, const std::vector<RankCall>& calls, int threads) {
  static constexpr std::uint32_t kStop = 0;
  constexpr int kMostRounds = 10'000;
  std::vector<RankGrid> grids(calls.size());
  for (int round = 0; round < kMostRounds && (round == 0 || !unfinished(grids).empty()); ++round) {
    for (std::size_t rank = 0; rank < calls.size(); ++rank) {
      RankGrid& grid = grids[rank];
      if (round == 0) {
        grid.stream = host_device().make_stream().value();
        grid.run.stop = &kStop;
        grid.run.look_limit = 1;
        launch(grid, world.plan(rank), calls[rank], threads);
      } else {
        launch_lanes(grid, threads);
      }
      grid.stream->synchronize().value();
    }
  }
  return grids;
}

// As ranks do that share a device in turns.
TEST_P(Blocks, GoOnWhereAnEarlierGridStopped) {
  const auto& [algorithm, fifos] = GetParam();
  LibraryDevice* const device = fifos == FifoMemory::Device ? &host() : nullptr;
  std::mt19937_64 random(24);
  const int ranks = 3;
  const Problem problem{algorithm.collective, ranks, has_root(algorithm.collective) ? 1 : 0};
  if (!algorithm.supports(problem)) return;
  for (const JobShape& shape : shapes(algorithm, ranks)) {
    const std::vector<Lowered> programs = lower_ranks(algorithm, problem, 2);
    World world(programs, {.slots = 2, .first_sequence = 0xFFFFFFFDU, .device = device});
    Job job(algorithm, problem, programs[0], shape, random);
    ASSERT_EQ(unfinished(run_grids_in_turns(world, job.calls(), 2)), "");
    ASSERT_EQ(job.wrong(), "") << name(shape.dtype);
  }
}

Algorithm ring() { return *find_algorithm(Collective::AllReduce, "ring"); }

// A rank whose peer never comes: what ends its blocks.
struct Alone {
  Alone() : job(ring(), problem, programs[0], {.count = 1'000}, random) {}
  std::vector<RankGrid> run(const Waits& waits) { return run_grids(world, {job.calls()[0]}, 2, waits); }

  Problem problem{Collective::AllReduce, 2, 0};
  std::mt19937_64 random{22};
  std::vector<Lowered> programs = lower_ranks(ring(), problem, 2);
  World world{programs, {}};
  Job job;
};

TEST(BlocksAlone, EndWhenTheyAreToldTo) {
  Alone alone;
  const std::uint32_t stop = 1;
  const std::vector<RankGrid> grids = alone.run({&stop});
  for (const LaneState& lane : grids[0].lanes) {
    EXPECT_FALSE(lane.done);
    EXPECT_EQ(lane.fault, Fault::None);
  }
}

TEST(BlocksAlone, EndWhenNothingMovesForLong) {
  Alone alone;
  const std::uint32_t stop = 0;
  const std::vector<RankGrid> grids = alone.run({&stop, 20'000'000});
  for (const LaneState& lane : grids[0].lanes) {
    EXPECT_FALSE(lane.done);
    EXPECT_EQ(lane.fault, Fault::None);
  }
}

TEST(BlocksAlone, TellAMessageOfAnotherCall) {
  const Problem problem{Collective::AllReduce, 2, 0};
  std::mt19937_64 random(23);
  const std::vector<Lowered> programs = lower_ranks(ring(), problem, 1);
  World world(programs, {});
  Job job(ring(), problem, programs[0], {.count = 100}, random);
  std::vector<RankCall> calls = job.calls();
  calls[1].state.signature = 8;
  const std::uint32_t stop = 0;
  const std::vector<RankGrid> grids = run_grids(world, calls, 3, {&stop, 200'000'000});
  EXPECT_EQ(grids[0].lanes[0].fault, Fault::Signature);
}

}  // namespace
}  // namespace wreath
