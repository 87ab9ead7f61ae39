// Tests the real executor in one thread: every algorithm in random turns, against what its collective promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/executor/handwritten/handwritten.hpp"
#include "src/schedule/lower.hpp"
#include "tests/support/lane_trace.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/executor/counting_kernels.hpp"
#include "tests/unit/executor/job.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath {
namespace {

struct Element {
  DataType dtype;
  ReduceOp op;
};

std::vector<Element> elements_of(Collective collective) {
  if (collective == Collective::Barrier) return {{DataType::Uint8, ReduceOp::Max}};
  if (!reduces(collective)) return {{DataType::Uint8, ReduceOp::Sum}, {DataType::Float64, ReduceOp::Sum}};
  return {{DataType::Float32, ReduceOp::Sum},
          {DataType::Float16, ReduceOp::Avg},
          {DataType::BFloat16, ReduceOp::PremultipliedSum},
          {DataType::Int8, ReduceOp::PremultipliedSum}};
}

struct Point {
  WorldShape world;
  JobShape job;
};

Streamed any_streamed(std::mt19937_64& random) { return static_cast<Streamed>(random() % 3); }

// Returns the points of a run. A usual run takes every second point, and takes the others with the other number of
// lanes.
std::vector<Point> points(const Algorithm& algorithm, int ranks, int parity, std::mt19937_64& random) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t share = moves_blocks(algorithm.collective) ? 1 : n;
  std::vector<Point> all;
  const bool whole = testing_support::takes_every_case();
  for (const Element& element : elements_of(algorithm.collective)) {
    int place = parity;
    for (const std::uint64_t count : {std::uint64_t{1}, 16 * share - share / 2, 80 * share + 1}) {
      ++place;
      for (const bool in_place : {false, true}) {
        if (!whole && (place + (in_place ? 1 : 0)) % 2 != 0) continue;
        Point point;
        point.world = {1U << random() % 4, 0xFFFFFFFDU,
                       random() % 2 == 0 ? static_cast<std::size_t>(algorithm.minimum_resident_lanes)
                                         : LaneScheduler::kAllResident,
                       // The limits mean none, tiles (of 128 bytes) above about half, and full tiles.
                       random() % 3 * 60, any_streamed(random)};
        if (random() % 2 == 0) point.world.headers = 16;
        if (random() % 2 == 0) point.world.order = LaneOrder::Lowest;
        point.job = {.dtype = element.dtype, .op = element.op, .count = count, .in_place = in_place};
        all.push_back(point);
      }
    }
    if ((algorithm.traits & kVarying) == 0) continue;
    for (const bool in_place : {false, true}) {
      Point point{{.first_sequence = 5}, {.dtype = element.dtype, .op = element.op, .in_place = in_place}};
      const std::uint64_t blocks = algorithm.collective == Collective::AllToAll ? n * n : n;
      for (std::uint64_t i = 0; i < blocks; ++i) point.job.block_counts.push_back(random() % 3 * (random() % 70));
      all.push_back(point);
    }
  }
  return all;
}

// Holds a row, and the loop that advances its lanes.
struct Advanced {
  Algorithm row;
  HandwrittenLoop loop;
};

std::vector<Advanced> rows_by_steps() {
  std::vector<Advanced> rows;
  for (const Algorithm& row : algorithms()) rows.push_back({row, HandwrittenLoop::None});
  return rows;
}

std::vector<Advanced> rows_by_loops() {
  std::vector<Advanced> rows;
  for (const Algorithm& row : algorithms()) {
    const HandwrittenLoop loop = handwritten_loop(row.collective, row.name);
    if (loop != HandwrittenLoop::None) rows.push_back({row, loop});
  }
  return rows;
}

std::string name_of(const testing::TestParamInfo<Advanced>& info) {
  return std::string(name(info.param.row.collective)) + "_" + std::string(info.param.row.name);
}

std::string text_of(const Point& point) {
  return std::string(name(point.job.dtype)) + " " + std::string(name(point.job.op)) + " count " +
         std::to_string(point.job.count) + (point.job.block_counts.empty() ? "" : " varying") +
         (point.job.in_place ? " in place" : "") + " slots " + std::to_string(point.world.slots) + " headers " +
         std::to_string(point.world.headers) + " order " + std::to_string(static_cast<int>(point.world.order)) +
         " single copy " + std::to_string(point.world.single_copy_bytes) + " streamed " +
         std::to_string(static_cast<int>(point.world.streamed));
}

// Runs two operations back to back at one point, and returns what goes wrong.
std::string goes_wrong(const Algorithm& algorithm, const Problem& problem, const std::vector<Lowered>& programs,
                       const Point& point, std::mt19937_64& random) {
  World world(programs, point.world);
  for (int operation = 0; operation < 2; ++operation) {
    Job job(algorithm, problem, programs[0], point.job, random);
    if (std::string wrong = world.run(job.calls(), random); !wrong.empty()) return text_of(point) + ": " + wrong;
    if (std::string wrong = job.wrong(); !wrong.empty()) return text_of(point) + ": " + wrong;
  }
  return {};
}

std::vector<Lowered> lower_ranks(const Algorithm& algorithm, const Problem& problem, int data_lanes) {
  std::vector<Lowered> programs;
  for (Rank rank = 0; rank < problem.ranks; ++rank) {
    programs.push_back(std::move(lower(algorithm.build(problem, rank), rank, data_lanes)).value());
  }
  return programs;
}

class Executor : public testing::TestWithParam<Advanced> {};

TEST_P(Executor, DoesWhatTheCollectivePromisesInRandomTurns) {
  const Algorithm& algorithm = GetParam().row;
  std::mt19937_64 random(11);
  for (const int ranks : {1, 2, 3, 4, 5, 6, 9}) {
    if (ranks == 1 && GetParam().loop != HandwrittenLoop::None) continue;
    for (const int data_lanes : {1, 2}) {
      const Problem problem{algorithm.collective, ranks, has_root(algorithm.collective) ? ranks / 2 : 0};
      if (!algorithm.supports(problem)) continue;
      const std::vector<Lowered> programs = lower_ranks(algorithm, problem, data_lanes);
      for (Point& point : points(algorithm, ranks, ranks + data_lanes, random)) {
        point.world.loop = GetParam().loop;
        ASSERT_EQ(goes_wrong(algorithm, problem, programs, point, random), "")
            << ranks << " ranks, " << data_lanes << " data lanes";
      }
    }
  }
}

// The trace of steps and the trace of loops must both match the schedule, so they do the same.
TEST_P(Executor, TracesWhatTheScheduleSays) {
  const Algorithm& algorithm = GetParam().row;
  std::mt19937_64 random(12);
  for (const int ranks : {2, 3, 4, 5}) {
    const Problem problem{algorithm.collective, ranks, 0};
    if (!algorithm.supports(problem)) continue;
    for (const int data_lanes : {1, 2}) {
      const std::vector<Lowered> programs = lower_ranks(algorithm, problem, data_lanes);
      for (const int count : {1, 16 * ranks - 3, 80 * ranks + 1}) {
        World world(programs, {.slots = 1U << random() % 3, .streamed = any_streamed(random), .loop = GetParam().loop});
        Job job(algorithm, problem, programs[0], {.count = static_cast<std::uint64_t>(count)}, random);
        const std::vector<RankCall> calls = job.calls();
        std::vector<StepTrace> traces(programs.size());
        for (std::size_t rank = 0; rank < traces.size(); ++rank) world.scheduler(rank).set_trace(&traces[rank]);
        ASSERT_EQ(world.run(calls, random), "");
        for (std::size_t rank = 0; rank < traces.size(); ++rank) {
          EXPECT_EQ(test::differs(traces[rank], programs[rank], calls[rank].state.geometry), "")
              << "rank " << rank << " of " << ranks << ", count " << count << ", data lanes " << data_lanes;
        }
      }
    }
  }
}

TEST_P(Executor, FencesWhatItStoresInSlotsPastTheCaches) {
  const Algorithm& algorithm = GetParam().row;
  // No data of a barrier is worth it.
  if (algorithm.collective == Collective::Barrier) return;
  std::mt19937_64 random(13);
  const Problem problem{algorithm.collective, 4, 0};
  ASSERT_TRUE(algorithm.supports(problem));
  const std::vector<Lowered> programs = lower_ranks(algorithm, problem, 1);
  // A step with several chunks fills each of them by itself.
  constexpr std::uint32_t kTileBytes = 32 << 10;
  World world(programs, {.loop = GetParam().loop, .slot_bytes = kTileBytes, .copies = counting_kernels()});
  world.fill_past_caches();
  Job job(algorithm, problem, programs[0], {.count = kTileBytes, .tile_bytes = kTileBytes}, random);
  ASSERT_EQ(world.run(job.calls(), random), "");
  EXPECT_EQ(job.wrong(), "");
  EXPECT_GT(copy_counts().past, 0);
  EXPECT_EQ(copy_counts().unfenced, 0);
}

INSTANTIATE_TEST_SUITE_P(Steps, Executor, testing::ValuesIn(rows_by_steps()), name_of);
INSTANTIATE_TEST_SUITE_P(Handwritten, Executor, testing::ValuesIn(rows_by_loops()), name_of);

// Memory that is added to has been read, so its lines are near.
TEST(Streams, GoPastTheCachesWhereNothingIsAddedToTheOutput) {
  std::mt19937_64 random(14);
  for (const Collective collective : {Collective::ReduceScatter, Collective::Reduce}) {
    const Algorithm& row = *find_algorithm(collective, "direct");
    const std::vector<Lowered> programs = lower_ranks(row, {collective, 2, 0}, 1);
    for (const bool in_place : {false, true}) {
      World world(programs, {.streamed = Streamed::All, .copies = counting_kernels()});
      Job job(row, {collective, 2, 0}, programs[0], {.count = 256, .in_place = in_place}, random);
      ASSERT_EQ(world.run(job.calls(), random), "");
      EXPECT_EQ(job.wrong(), "");
      EXPECT_EQ(copy_counts().past > 0, !in_place) << name(collective);
    }
  }
}

// Data of a peer may be sent on, and would be read again.
TEST(Streams, OfOwnBlocksAloneLeaveThoseOfPeersInTheCaches) {
  const auto copies_past_caches = [](Collective collective, Streamed streamed) {
    std::mt19937_64 random(15);
    const Algorithm& row = *find_algorithm(collective, "direct");
    const std::vector<Lowered> programs = lower_ranks(row, {collective, 3, 0}, 1);
    World world(programs, {.streamed = streamed, .copies = counting_kernels()});
    Job job(row, {collective, 3, 0}, programs[0], {.count = 256}, random);
    EXPECT_EQ(world.run(job.calls(), random), "");
    EXPECT_EQ(job.wrong(), "");
    EXPECT_EQ(copy_counts().unfenced, 0);
    return copy_counts().past;
  };
  for (const Collective collective : {Collective::AllGather, Collective::AllToAll}) {
    const int own = copies_past_caches(collective, Streamed::Own);
    EXPECT_GT(own, 0) << name(collective);
    EXPECT_EQ(copies_past_caches(collective, Streamed::All), 3 * own) << name(collective);
    EXPECT_EQ(copies_past_caches(collective, Streamed::Nothing), 0) << name(collective);
  }
  EXPECT_EQ(copies_past_caches(Collective::ReduceScatter, Streamed::Own), 0);
}

// The project's mission promises these algorithms as loops, and messages.
TEST(Handwritten, HasRingsTwoShotAndMessages) {
  std::vector<std::string> loops;
  for (const Advanced& row : rows_by_loops()) {
    loops.push_back(std::string(name(row.row.collective)) + " " + std::string(row.row.name));
  }
  EXPECT_THAT(loops, testing::UnorderedElementsAre("all_reduce ring", "all_reduce two_shot", "reduce_scatter ring",
                                                   "all_gather ring"));
  EXPECT_NE(handwritten_loop(Collective::Exchange, ""), HandwrittenLoop::None);
}

}  // namespace
}  // namespace wreath
