// Random edits of programs are either caught by verify(), or they are harmless when they run.
#include <gtest/gtest.h>

#include <iostream>
#include <vector>

#include "src/schedule/meaning.hpp"
#include "src/schedule/verify.hpp"
#include "tests/support/mutate.hpp"
#include "tests/unit/schedule/interpreter.hpp"

namespace wreath {
namespace {

constexpr int kMutants = 400;
constexpr int kInterleavings = 4;  // of each point

struct Point {
  VerifyOptions options;
  ReduceOp op;
};

std::vector<std::uint64_t> ragged_blocks(const Problem& problem) {
  const int blocks = problem.ranks * (problem.collective == Collective::AllToAll ? problem.ranks : 1);
  std::vector<std::uint64_t> counts;
  for (int block = 0; block < blocks; ++block) counts.push_back(block % 3 == 1 ? 0 : static_cast<unsigned>(block * 13));
  return counts;
}

// Returns points for float32 in tiles of 32 elements: one element, uneven parts, and several tiles with a tail.
std::vector<Point> points(const Algorithm& row, const Problem& problem) {
  std::vector<VerifyOptions> shapes;
  const auto n = static_cast<std::uint64_t>(problem.ranks);
  const bool blocks = moves_blocks(problem.collective);
  for (const std::uint64_t count : {std::uint64_t{1}, blocks ? 16 : 16 * n - 3, blocks ? 70 : 80 * n + 1}) {
    shapes.emplace_back().count = count;
  }
  if ((row.traits & kVarying) != 0) shapes.emplace_back().block_counts = ragged_blocks(problem);
  std::vector<Point> all;
  for (VerifyOptions& options : shapes) {
    options.element_bytes = sizeof(float);
    if ((row.traits & kSeveralParts) != 0) options.tile_bytes *= n;
    for (const std::uint32_t slots : {1u, 2u, 8u}) {
      for (const bool in_place : {false, true}) {
        if (in_place && !has_in_place(problem.collective)) continue;
        options.slots = slots;
        options.in_place = in_place;
        const ReduceOp op = slots == 1 ? ReduceOp::Sum : slots == 2 ? ReduceOp::Avg : ReduceOp::PremultipliedSum;
        all.push_back({options, problem.collective == Collective::Barrier ? ReduceOp::Max : op});
      }
    }
  }
  return all;
}

// Returns the first message of verify() over all points, or an empty text where it proves all of them.
std::string caught(const std::vector<Lowered>& programs, const Algorithm& row, const Problem& problem) {
  for (const Point& point : points(row, problem)) {
    const Status status = verify(programs, {problem, row.order, row.traits}, point.options);
    if (!status) return status.error().message;
  }
  return {};
}

// Returns the first thing that goes wrong in random runs of all points, or an empty text.
std::string goes_wrong(const std::vector<Lowered>& programs, const Algorithm& row, const Problem& problem,
                       std::mt19937_64& random) {
  for (const Point& point : points(row, problem)) {
    const InterpreterOptions options{.problem = problem,
                                     .traits = row.traits,
                                     .count = point.options.count,
                                     .block_counts = point.options.block_counts,
                                     .tile_bytes = point.options.tile_bytes,
                                     .slots = point.options.slots,
                                     .in_place = point.options.in_place,
                                     .op = point.op,
                                     .whole_numbers = row.order != Order::Canonical};
    for (int i = 0; i < kInterleavings; ++i) {
      if (std::string wrong = interpret(programs, options, random); !wrong.empty()) return wrong;
    }
  }
  return {};
}

class Mutants : public testing::TestWithParam<Algorithm> {};

TEST_P(Mutants, AreCaughtOrHarmless) {
  const Algorithm& row = GetParam();
  std::mt19937_64 random(20240607);
  int tried = 0, harmless = 0;
  for (int mutant = 0; mutant < kMutants; ++mutant) {
    const int ranks = 2 + mutant % 5;
    const Rank root = has_root(row.collective) ? mutant % 3 % ranks : 0;
    const Problem problem{row.collective, ranks, root};
    if (!row.supports(problem)) continue;
    ++tried;
    std::vector<Lowered> programs = lower_all(row, problem, mutant % 4 == 0 ? 2 : 1).value();
    const std::string edit = mutate(programs, random);
    if (!caught(programs, row, problem).empty()) continue;
    ++harmless;
    ASSERT_EQ(goes_wrong(programs, row, problem, random), "")
        << "not caught: mutant " << mutant << " of " << row.name << " on " << ranks << " ranks, " << edit;
  }
  RecordProperty("harmless", harmless);
  EXPECT_GT(tried, 0);
  EXPECT_LT(harmless, tried / 3);
  std::cout << name(row.collective) << " " << row.name << ": " << tried - harmless << " mutants caught, " << harmless
            << " harmless\n";
}

TEST_P(Mutants, UnchangedRunsAreRight) {
  const Algorithm& row = GetParam();
  std::mt19937_64 random(7);
  for (int ranks = 1; ranks <= 7; ++ranks) {
    for (Rank root = 0; root < (has_root(row.collective) ? ranks : 1); ++root) {
      const Problem problem{row.collective, ranks, root};
      if (!row.supports(problem)) continue;
      const std::vector<Lowered> programs = lower_all(row, problem, 2).value();
      EXPECT_EQ(goes_wrong(programs, row, problem, random), "") << ranks << " ranks, root " << root;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Mutants,
                         testing::ValuesIn(std::vector<Algorithm>(algorithms().begin(), algorithms().end())),
                         [](const auto& row) {
                           return std::string(name(row.param.collective)) + "_" + std::string(row.param.name);
                         });

}  // namespace
}  // namespace wreath
