// Tests that the real executor runs what verify() proves, even where nobody wrote it: random edits of every row that
// verify() accepts.
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <vector>

#include "src/schedule/verify.hpp"
#include "tests/support/mutate.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/executor/job.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath::mutants {
namespace {

// AddressSanitizer sees fewer by day: a mutant differs by what it computes, not by how it touches memory.
int mutants() { return testing_support::kSanitized ? testing_support::rounds(75, 300) : 300; }

struct Point {
  std::uint64_t count;
  std::uint32_t slots;
  bool in_place;
};

std::vector<Point> points(const Problem& problem) {
  const std::uint64_t share = moves_blocks(problem.collective) ? 1 : static_cast<std::uint64_t>(problem.ranks);
  std::vector<Point> all;
  for (const std::uint32_t slots : {1U, 2U, 8U}) {
    for (const std::uint64_t count : {std::uint64_t{1}, 16 * share - share / 2, 80 * share + 1}) {
      for (const bool in_place : {false, true}) {
        if (!in_place || has_in_place(problem.collective)) all.push_back({count, slots, in_place});
      }
    }
  }
  return all;
}

bool proved(const std::vector<Lowered>& programs, const Claim& claim) {
  for (const Point& point : points(claim.problem)) {
    VerifyOptions options;
    options.count = point.count;
    options.element_bytes = sizeof(float);
    options.slots = point.slots;
    options.in_place = point.in_place;
    if (!verify(programs, claim, options)) return false;
  }
  return true;
}

std::string goes_wrong(const Algorithm& algorithm, const Problem& problem, const std::vector<Lowered>& programs,
                       std::mt19937_64& random) {
  ReduceOp op = random() % 2 == 0 ? ReduceOp::Sum : ReduceOp::PremultipliedSum;
  // The contributions of a barrier may count twice.
  if (problem.collective == Collective::Barrier) op = ReduceOp::Max;
  std::unique_ptr<World> world;
  std::uint32_t slots = 0;
  for (const Point& point : points(problem)) {
    // The operations of all points with as many slots run one after the other in one world.
    if (point.slots != slots) {
      slots = point.slots;
      world = std::make_unique<World>(programs, WorldShape{point.slots, 0xFFFFFFFDU});
    }
    for (int operation = 0; operation < 2; ++operation) {
      Job job(algorithm, problem, programs[0], {.op = op, .count = point.count, .in_place = point.in_place}, random);
      if (std::string wrong = world->run(job.calls(), random); !wrong.empty()) return wrong;
      if (std::string wrong = job.wrong(); !wrong.empty()) return wrong;
    }
  }
  return {};
}

class ExecutorOfMutants : public testing::TestWithParam<Algorithm> {};

TEST_P(ExecutorOfMutants, RunsThoseThatVerifyProvesRight) {
  const Algorithm& row = GetParam();
  std::mt19937_64 random(20240607);
  int ran = 0;
  const int all = mutants();
  for (int mutant = 0; mutant < all; ++mutant) {
    const Problem problem{row.collective, 2 + mutant % 5, 0};
    if (!row.supports(problem)) continue;
    std::vector<Lowered> programs = lower_all(row, problem, mutant % 4 == 0 ? 2 : 1).value();
    const std::string edit = mutate(programs, random);
    if (!proved(programs, {problem, row.order, row.traits})) continue;
    ++ran;
    ASSERT_EQ(goes_wrong(row, problem, programs, random), "")
        << "mutant " << mutant << " on " << problem.ranks << " ranks: " << edit;
  }
  std::cout << row.name << ": " << ran << " of " << all << " mutants run and right\n";
}

INSTANTIATE_TEST_SUITE_P(Registry, ExecutorOfMutants,
                         testing::ValuesIn(std::vector<Algorithm>(algorithms().begin(), algorithms().end())),
                         [](const auto& row) {
                           return std::string(name(row.param.collective)) + "_" + std::string(row.param.name);
                         });

}  // namespace
}  // namespace wreath::mutants
