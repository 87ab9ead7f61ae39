// The real executor in one thread: every algorithm in random turns, and mutants that verify() let pass.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "kernels/kernels.hpp"
#include "src/schedule/mutate.hpp"
#include "src/schedule/verify.hpp"
#include "tests/unit/executor/world.hpp"

namespace wreath {
namespace {

constexpr int kMutants = 1000;

struct Data {
  std::vector<std::vector<float>> inputs;
  std::vector<float> sums;
};

// Whole numbers where the order is not canonical: exact in any order.
Data data_of(int ranks, std::uint64_t count, Order order, std::mt19937_64& random) {
  Data data;
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<float>& input = data.inputs.emplace_back(count);
    for (float& value : input) {
      value = static_cast<float>(static_cast<std::int64_t>(random() % 2001) - 1000);
      if (order == Order::Canonical) value = std::ldexp(value, static_cast<int>(random() % 30) - 15);
    }
  }
  for (const auto& input : data.inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  data.sums.resize(count);
  if (count > 0) {
    reduce_reference(DataType::Float32, ReduceOp::Sum, reinterpret_cast<std::byte*>(data.sums.data()), sources.data(),
                     ranks, count);
  }
  return data;
}

std::vector<WorldOptions> points(int ranks) {
  std::vector<WorldOptions> all;
  const auto n = static_cast<std::uint64_t>(ranks);
  for (const std::uint64_t count : {std::uint64_t{1}, 16 * n - 3, 80 * n + 1}) {
    for (const std::uint32_t slots : {1U, 2U, 8U}) {
      for (const bool in_place : {false, true}) all.push_back({count, 128, slots, in_place, 0xFFFFFFFDU});
    }
  }
  return all;
}

// Two operations back to back at every point.
std::string goes_wrong(const std::vector<Lowered>& programs, Order order, std::mt19937_64& random) {
  const int ranks = static_cast<int>(programs.size());
  for (const WorldOptions& point : points(ranks)) {
    World world(programs, point);
    for (int operation = 0; operation < 2; ++operation) {
      const Data data = data_of(ranks, point.count, order, random);
      if (std::string wrong = world.run(data.inputs, data.sums, random); !wrong.empty()) return wrong;
    }
  }
  return {};
}

bool proved(const std::vector<Lowered>& programs, Order order) {
  for (const WorldOptions& point : points(static_cast<int>(programs.size()))) {
    VerifyOptions options;
    options.count = point.count;
    options.element_bytes = sizeof(float);
    options.slots = point.slots;
    options.in_place = point.in_place;
    if (!verify(programs, order, options)) return false;
  }
  return true;
}

class Executor : public testing::TestWithParam<Algorithm> {};

TEST_P(Executor, SumsInRandomTurns) {
  std::mt19937_64 random(11);
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (const int data_lanes : {1, 2}) {
      const auto programs = lower_all(GetParam(), {Collective::AllReduce, ranks}, data_lanes).value();
      EXPECT_EQ(goes_wrong(programs, GetParam().order, random), "") << ranks << " ranks";
    }
  }
}

TEST_P(Executor, RunsEveryMutantThatVerifyProvesRight) {
  std::mt19937_64 random(20240607);
  int ran = 0;
  for (int mutant = 0; mutant < kMutants; ++mutant) {
    const int ranks = 2 + mutant % 5;
    std::vector<Lowered> programs =
        lower_all(GetParam(), {Collective::AllReduce, ranks}, mutant % 4 == 0 ? 2 : 1).value();
    const std::string edit = mutate(programs, random);
    if (!proved(programs, GetParam().order)) continue;
    ++ran;
    ASSERT_EQ(goes_wrong(programs, GetParam().order, random), "") << "mutant " << mutant << ": " << edit;
  }
  std::cout << GetParam().name << ": " << kMutants - ran << " mutants caught, " << ran << " run and right\n";
}

INSTANTIATE_TEST_SUITE_P(Registry, Executor, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace wreath
