// verify() against random edits: each is caught, or it is harmless when run.
#include <gtest/gtest.h>

#include <iostream>

#include "src/schedule/mutate.hpp"
#include "src/schedule/verify.hpp"
#include "tests/unit/schedule/interpreter.hpp"

namespace wreath {
namespace {

constexpr int kMutants = 1000;
constexpr int kInterleavings = 10;  // of each point

struct Point {
  std::uint64_t count;
  std::uint32_t slots;
  bool in_place;
};

// float32 in tiles of 32: one element, uneven parts, several tiles and a tail.
std::vector<Point> points(int ranks) {
  std::vector<Point> all;
  const auto n = static_cast<std::uint64_t>(ranks);
  for (const std::uint64_t count : {std::uint64_t{1}, 16 * n - 3, 80 * n + 1}) {
    for (const std::uint32_t slots : {1u, 2u, 8u}) {
      for (const bool in_place : {false, true}) all.push_back({count, slots, in_place});
    }
  }
  return all;
}

// What verify says about all points; empty where it proves them.
std::string caught(const std::vector<Lowered>& programs, Order order, int ranks) {
  for (const Point& point : points(ranks)) {
    VerifyOptions options;
    options.count = point.count;
    options.element_bytes = sizeof(float);
    options.slots = point.slots;
    options.in_place = point.in_place;
    if (const Status status = verify(programs, order, options); !status) return status.error().message;
  }
  return {};
}

// The first thing that goes wrong in random runs of all points.
std::string goes_wrong(const std::vector<Lowered>& programs, Order order, int ranks, std::mt19937_64& random) {
  for (const Point& point : points(ranks)) {
    const InterpreterOptions options{.count = point.count,
                                     .slots = point.slots,
                                     .in_place = point.in_place,
                                     .whole_numbers = order != Order::Canonical};
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
  int harmless = 0;
  for (int mutant = 0; mutant < kMutants; ++mutant) {
    const int ranks = 2 + mutant % 5;
    const int data_lanes = mutant % 4 == 0 ? 2 : 1;
    std::vector<Lowered> programs = lower_all(row, {Collective::AllReduce, ranks}, data_lanes).value();
    const std::string edit = mutate(programs, random);
    if (!caught(programs, row.order, ranks).empty()) continue;
    ++harmless;
    ASSERT_EQ(goes_wrong(programs, row.order, ranks, random), "")
        << "not caught: mutant " << mutant << " of " << row.name << " on " << ranks << " ranks, " << edit;
  }
  RecordProperty("harmless", harmless);
  EXPECT_LT(harmless, kMutants / 3);
  std::cout << row.name << ": " << kMutants - harmless << " mutants caught, " << harmless << " harmless\n";
}

TEST_P(Mutants, UnchangedRunsAreRight) {
  std::mt19937_64 random(7);
  for (int ranks = 1; ranks <= 7; ++ranks) {
    const std::vector<Lowered> programs = lower_all(GetParam(), {Collective::AllReduce, ranks}, 2).value();
    EXPECT_EQ(goes_wrong(programs, GetParam().order, ranks, random), "") << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Mutants, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace wreath
