// The real executor in one thread: every algorithm in random turns, against what its collective promises.
#include <gtest/gtest.h>

#include "src/schedule/lower.hpp"
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

std::vector<Point> points(const Algorithm& algorithm, int ranks, std::mt19937_64& random) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t share = moves_blocks(algorithm.collective) ? 1 : n;
  std::vector<Point> all;
  for (const Element& element : elements_of(algorithm.collective)) {
    for (const std::uint64_t count : {std::uint64_t{1}, 16 * share - share / 2, 80 * share + 1}) {
      for (const bool in_place : {false, true}) {
        Point point;
        point.world = {1U << random() % 4, 0xFFFFFFFDU,
                       random() % 2 == 0 ? static_cast<std::size_t>(algorithm.minimum_resident_lanes)
                                         : LaneScheduler::kAllResident,
                       random() % 3 * 60};  // none, tiles (of 128 bytes) above about half, full ones
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

std::string text_of(const Point& point) {
  return std::string(name(point.job.dtype)) + " " + std::string(name(point.job.op)) + " count " +
         std::to_string(point.job.count) + (point.job.block_counts.empty() ? "" : " varying") +
         (point.job.in_place ? " in place" : "") + " slots " + std::to_string(point.world.slots) + " single copy " +
         std::to_string(point.world.single_copy_bytes);
}

// Two operations back to back at one point.
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

class Executor : public testing::TestWithParam<Algorithm> {};

TEST_P(Executor, DoesWhatTheCollectivePromisesInRandomTurns) {
  const Algorithm& algorithm = GetParam();
  std::mt19937_64 random(11);
  for (const int ranks : {1, 2, 3, 4, 5, 6, 9}) {
    for (const int data_lanes : {1, 2}) {
      const Problem problem{algorithm.collective, ranks, has_root(algorithm.collective) ? ranks / 2 : 0};
      if (!algorithm.supports(problem)) continue;
      const std::vector<Lowered> programs = lower_ranks(algorithm, problem, data_lanes);
      for (const Point& point : points(algorithm, ranks, random)) {
        ASSERT_EQ(goes_wrong(algorithm, problem, programs, point, random), "")
            << ranks << " ranks, " << data_lanes << " data lanes";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Executor, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) {
                           return std::string(name(row.param.collective)) + "_" + std::string(row.param.name);
                         });

}  // namespace
}  // namespace wreath
