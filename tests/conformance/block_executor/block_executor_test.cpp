// Tests the executor as a GPU runs it, by blocks of threads on the host device: every algorithm, all ranks at once.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "src/executor/handwritten/handwritten.hpp"
#include "tests/unit/executor/grids.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath {
namespace {

struct Waits {
  const std::uint32_t* stop;
  std::uint64_t stall_ns = 0;
};

RankCall with_loop(RankCall call, HandwrittenLoop loop, int ranks, std::size_t rank) {
  call.state.loop = loop;
  call.state.ranks = static_cast<std::uint32_t>(ranks);
  call.state.rank = static_cast<std::uint32_t>(rank);
  return call;
}

// Starts the grids of the first ranks, each in a stream of its own, and waits for their ends. The grids run the lanes'
// steps, or `loop`.
std::vector<RankGrid> run_grids(World& world, const std::vector<RankCall>& calls, int threads, const Waits& waits,
                                HandwrittenLoop loop = HandwrittenLoop::None) {
  std::vector<RankGrid> grids(calls.size());
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    grids[rank].stream = host_device().make_stream().value();
    grids[rank].run.stop = waits.stop;
    grids[rank].run.stall_ns = waits.stall_ns;
    launch(grids[rank], world.plan(rank), with_loop(calls[rank], loop, world.ranks(), rank), threads);
  }
  for (const RankGrid& grid : grids) grid.stream->synchronize().value();
  for (std::size_t rank = 0; rank < calls.size(); ++rank) give_back(grids[rank], world.plan(rank));
  return grids;
}

// Says how lanes are advanced.
enum class By : std::uint8_t { Steps, Loop };

// A row, and the way in which it runs.
using Row = std::tuple<Algorithm, By>;

HandwrittenLoop loop_of(const Row& row) {
  const auto& [algorithm, by] = row;
  return by == By::Steps ? HandwrittenLoop::None : handwritten_loop(algorithm.collective, algorithm.name);
}

std::vector<Algorithm> rows_with_loops() {
  std::vector<Algorithm> rows;
  for (const Algorithm& row : algorithms()) {
    if (handwritten_loop(row.collective, row.name) != HandwrittenLoop::None) rows.push_back(row);
  }
  return rows;
}

class Blocks : public testing::TestWithParam<Row> {};

std::string name_of(const testing::TestParamInfo<Row>& info) {
  const auto& [algorithm, by] = info.param;
  return std::string(name(algorithm.collective)) + "_" + std::string(algorithm.name) +
         (by == By::Loop ? "_handwritten" : "");
}
INSTANTIATE_TEST_SUITE_P(Rows, Blocks,
                         testing::Combine(testing::ValuesIn(std::vector<Algorithm>(algorithms().begin(),
                                                                                   algorithms().end())),
                                          testing::Values(By::Steps)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(RowsWithLoops, Blocks,
                         testing::Combine(testing::ValuesIn(rows_with_loops()), testing::Values(By::Loop)), name_of);

// Runs two operations back to back over FIFOs of two slots.
TEST_P(Blocks, DoWhatTheCollectivePromises) {
  const auto& [algorithm, by] = GetParam();
  ASSERT_EQ(loop_of(GetParam()) == HandwrittenLoop::None, by == By::Steps);
  std::mt19937_64 random(21);
  const std::uint32_t stop = 0;
  for (const int ranks : {2, 3, 5}) {
    const Problem problem{algorithm.collective, ranks, has_root(algorithm.collective) ? ranks / 2 : 0};
    if (!algorithm.supports(problem)) continue;
    for (const JobShape& shape : shapes(algorithm, ranks)) {
      const std::vector<Lowered> programs = lower_ranks(algorithm, problem, 1 + ranks % 2);
      World world(programs, {.slots = 2, .first_sequence = 0xFFFFFFFDU});
      for (const int threads : {3, 1}) {
        Job job(algorithm, problem, programs[0], shape, random);
        ASSERT_EQ(unfinished(run_grids(world, job.calls(), threads, {&stop}, loop_of(GetParam()))), "")
            << ranks << " ranks";
        ASSERT_EQ(job.wrong(), "") << ranks << " ranks, " << threads << " threads, " << name(shape.dtype);
      }
    }
  }
}

// Runs grids of one rank after the other until all are done. No grid waits.
std::vector<RankGrid> run_grids_in_turns(World& world, const std::vector<RankCall>& calls, int threads,
                                         HandwrittenLoop loop) {
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
        launch(grid, world.plan(rank), with_loop(calls[rank], loop, world.ranks(), rank), threads);
      } else {
        launch_lanes(grid, threads);
      }
      grid.stream->synchronize().value();
    }
  }
  return grids;
}

// Ranks that share a device in turns run in this way.
TEST_P(Blocks, GoOnWhereAnEarlierGridStopped) {
  const auto& [algorithm, by] = GetParam();
  ASSERT_EQ(loop_of(GetParam()) == HandwrittenLoop::None, by == By::Steps);
  std::mt19937_64 random(24);
  const int ranks = 3;
  const Problem problem{algorithm.collective, ranks, has_root(algorithm.collective) ? 1 : 0};
  if (!algorithm.supports(problem)) return;
  for (const JobShape& shape : shapes(algorithm, ranks)) {
    const std::vector<Lowered> programs = lower_ranks(algorithm, problem, 2);
    World world(programs, {.slots = 2, .first_sequence = 0xFFFFFFFDU});
    Job job(algorithm, problem, programs[0], shape, random);
    ASSERT_EQ(unfinished(run_grids_in_turns(world, job.calls(), 2, loop_of(GetParam()))), "");
    ASSERT_EQ(job.wrong(), "") << name(shape.dtype);
  }
}

Algorithm ring() { return *find_algorithm(Collective::AllReduce, "ring"); }

// Runs a rank whose peer never comes, so that tests see how its blocks end.
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

// The host launches a grid again where something moved. The last step of a lane counts as such, too.
TEST(BlocksOfOneStep, TellThatTheyHaveMoved) {
  const Algorithm chain = *find_algorithm(Collective::Broadcast, "chain");
  const Problem problem{Collective::Broadcast, 2, 0};
  std::mt19937_64 random(26);
  const std::vector<Lowered> programs = lower_ranks(chain, problem, 1);
  World world(programs, {});
  Job job(chain, problem, programs[0], {.count = 10}, random);
  const std::vector<RankCall> calls = job.calls();
  const std::uint32_t stop = 0;
  std::vector<RankGrid> grids(2);
  std::vector<std::vector<Counter>> moved;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    RankGrid& grid = grids[rank];
    moved.emplace_back(programs[rank].lanes.size());
    grid.stream = host_device().make_stream().value();
    grid.run.stop = &stop;
    grid.run.moved = moved[rank].data();
    grid.run.blocks = static_cast<std::uint32_t>(moved[rank].size());
    launch(grid, world.plan(rank), calls[rank], 2);
    grid.stream->synchronize().value();
    for (std::size_t lane = 0; lane < grid.lanes.size(); ++lane) {
      const bool had_steps = programs[rank].lanes[lane].step_count > 0;
      EXPECT_EQ(moved[rank][lane].value > 0, had_steps) << "rank " << rank << " lane " << lane;
    }
  }
  ASSERT_EQ(unfinished(grids), "");
  ASSERT_EQ(job.wrong(), "");
}

// Blocks bring only so many steps near; the further steps stay where they are.
TEST(BlocksOfManyRanks, RunLanesOfMoreStepsThanTheyBringNear) {
  const Problem problem{Collective::AllReduce, 60, 0};
  std::mt19937_64 random(25);
  const std::vector<Lowered> programs = lower_ranks(ring(), problem, 1);
  ASSERT_GT(programs[0].lanes[0].step_count, kStepsAhead);
  World world(programs, {});
  Job job(ring(), problem, programs[0], {.count = 130}, random);
  const std::uint32_t stop = 0;
  ASSERT_EQ(unfinished(run_grids(world, job.calls(), 1, {&stop})), "");
  ASSERT_EQ(job.wrong(), "");
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
