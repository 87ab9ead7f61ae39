// Linear layers divided over ranks have the values of one rank, and communicate the bytes of the closed forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "tests/training/tensor_parallel/ranks.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training::test::linear {
namespace {

enum class Kind { Column, Row };

struct Problem {
  Kind kind = Kind::Column;
  int ranks = 1;
  bool sequence_parallel = false;
  std::int64_t rows = 12;
  std::int64_t inputs = 30;
  std::int64_t outputs = 42;
  // The divided axis has this number of fields (queries, keys, values), each of which is divided.
  int parts = 1;
  bool summed = true;  // false plants an error: no rank communicates
  bool bias = true;
};

struct Outcome {
  std::vector<float> y;
  std::vector<float> x_gradient;
  WholeGradients gradients;  // of two equal backward passes
  // The traffic of each rank: forward, backward, weights.
  std::vector<std::array<Payload, 3>> traffic;
};

std::int64_t divided_width(const Problem& problem) {
  return problem.kind == Kind::Column ? problem.outputs : problem.inputs;
}

std::vector<Range> ranges_of(const Problem& problem, int rank) {
  std::vector<Range> ranges;
  const std::int64_t field = divided_width(problem) / problem.parts;
  for (int part = 0; part < problem.parts; ++part) {
    ranges.push_back(part_of(field, problem.ranks, rank));
    ranges.back().begin += part * field;
  }
  return ranges;
}

// Calls visit(whole index, local index) for each element of [rows][held columns].
template <typename Visit>
void for_each_held(const Problem& problem, int rank, const Visit& visit) {
  std::size_t local = 0;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    for (const Range& range : ranges_of(problem, rank)) {
      for (std::int64_t i = 0; i < range.count; ++i) {
        visit(static_cast<std::size_t>(row * divided_width(problem) + range.begin + i), local++);
      }
    }
  }
}

std::vector<float> held_columns(const Problem& problem, int rank, const std::vector<float>& whole) {
  std::vector<float> held;
  for_each_held(problem, rank, [&](std::size_t at, std::size_t) { held.push_back(whole[at]); });
  return held;
}

// Runs the layer on one rank and adds the results to the outcome.
template <typename Layer>
void run_rank(const Problem& problem, TestRank rank, std::mutex& mutex, Outcome& outcome) {
  const int index = rank.group.rank();
  Group alone("tp", rank.traffic);
  TensorRegion region(problem.summed ? rank.group : alone, problem.sequence_parallel, rank.memory);
  ParameterList parameters;
  const bool automatic = problem.parts == 1 && problem.summed;
  Layer layer(parameters,
              {.name = "layer",
               .inputs = problem.inputs,
               .outputs = problem.outputs,
               .ranges = automatic ? std::vector<Range>{} : ranges_of(problem, index),
               .bias = problem.bias},
              region);
  const Storage storage(parameters);

  const bool column = problem.kind == Kind::Column;
  const Range held = region.held_rows(problem.rows);
  const std::int64_t undivided_width = column ? problem.inputs : problem.outputs;
  const auto part_of_input = [&](std::string_view name, bool divided) {
    return divided ? held_columns(problem, index, normals(name, problem.rows * divided_width(problem)))
                   : rows_of(normals(name, problem.rows * undivided_width), undivided_width, held);
  };
  const std::vector<float> x = part_of_input("x", !column);
  const std::vector<float> dy = part_of_input("dy", column);
  std::vector<float> y(dy.size());
  std::vector<float> dx(x.size());
  layer.forward(problem.rows, x, y);
  const Payload forward = take(rank.traffic);
  layer.backward(problem.rows, dy, dx);
  const Payload backward = take(rank.traffic);
  layer.backward_weights(problem.rows, x, dy);
  const Payload weights = take(rank.traffic);
  layer.backward_weights(problem.rows, x, dy);

  const bool gathers = problem.sequence_parallel && problem.ranks > 1;
  const auto gathered = static_cast<std::size_t>(problem.rows * undivided_width) * sizeof(float);
  EXPECT_EQ(rank.memory.peak_bytes(MemoryTag::Workspace), gathers ? gathered : 0u);

  const std::lock_guard lock(mutex);
  std::vector<float>& divided = column ? outcome.y : outcome.x_gradient;
  std::vector<float>& undivided = column ? outcome.x_gradient : outcome.y;
  divided.resize(static_cast<std::size_t>(problem.rows * divided_width(problem)));
  undivided.resize(static_cast<std::size_t>(problem.rows * undivided_width));
  for_each_held(problem, index, [&](std::size_t at, std::size_t here) { divided[at] = (column ? y : dx)[here]; });
  put_rows(undivided, undivided_width, held, column ? dx : y);
  for (const Parameter& parameter : parameters.all()) outcome.gradients.put(parameter);
  outcome.traffic.push_back({forward, backward, weights});
}

Outcome run(const Problem& problem) {
  std::mutex mutex;
  Outcome outcome;
  on_ranks(problem.ranks, "tp", [&](TestRank rank) {
    if (problem.kind == Kind::Column) {
      run_rank<ColumnParallelLinear>(problem, rank, mutex, outcome);
    } else {
      run_rank<RowParallelLinear>(problem, rank, mutex, outcome);
    }
  });
  return outcome;
}

Problem of_one_rank(Problem problem) {
  problem.ranks = 1;
  problem.sequence_parallel = false;
  problem.summed = true;
  return problem;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const Kind kind : {Kind::Column, Kind::Row}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (const bool sequence_parallel : {false, true}) {
        for (const std::int64_t rows : {12, 7}) {
          all.push_back({.kind = kind, .ranks = ranks, .sequence_parallel = sequence_parallel, .rows = rows});
        }
      }
      all.push_back({.kind = kind, .ranks = ranks, .sequence_parallel = true, .rows = 3, .parts = 3, .bias = false});
      all.push_back({.kind = kind, .ranks = ranks, .inputs = 3, .outputs = 2});  // some ranks hold nothing
    }
  }
  return all;
}

std::string describe(const Problem& problem) {
  return std::string(problem.kind == Kind::Column ? "column" : "row") + ", ranks " + std::to_string(problem.ranks) +
         (problem.sequence_parallel ? ", sequence parallel" : "") + ", rows " + std::to_string(problem.rows);
}

double worst_difference(const Outcome& a, const Outcome& b) {
  double worst = std::max(relative_difference(a.y, b.y), relative_difference(a.x_gradient, b.x_gradient));
  for (const auto& [name, gradient] : b.gradients.all()) {
    worst = std::max(worst, relative_difference(a.gradients.all().at(name), gradient));
  }
  return worst;
}

TEST(Linear, OneRankComputesTheProducts) {
  const Problem problem{};
  const Outcome outcome = run(problem);
  const std::vector<float> x = normals("x", problem.rows * problem.inputs);
  ParameterList parameters;
  MemoryAccounting memory;
  CommunicationAccounting traffic;
  Group alone("tp", traffic);
  TensorRegion region(alone, false, memory);
  const ColumnParallelLinear layer(
      parameters, {.name = "layer", .inputs = problem.inputs, .outputs = problem.outputs, .bias = true}, region);
  const Storage storage(parameters);
  std::vector<float> expected;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    for (std::int64_t output = 0; output < problem.outputs; ++output) {
      double sum = parameters.find("layer.bias")->value[static_cast<std::size_t>(output)];
      for (std::int64_t i = 0; i < problem.inputs; ++i) {
        sum += double{x[static_cast<std::size_t>(row * problem.inputs + i)]} *
               double{parameters.find("layer.weight")->value[static_cast<std::size_t>(i * problem.outputs + output)]};
      }
      expected.push_back(static_cast<float>(sum));
    }
  }
  EXPECT_LT(relative_difference(outcome.y, expected), kFloat32Bound);
}

TEST(Linear, GivesOnManyRanksWhatItGivesOnOne) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(describe(problem));
    EXPECT_LT(worst_difference(run(problem), run(of_one_rank(problem))), kFloat32Bound);
  }
}

// Each output of a column-parallel layer is one rank's product.
TEST(Linear, DividedOutputsHaveTheBitsOfOneRank) {
  for (const Problem& problem : problems()) {
    if (problem.kind != Kind::Column) continue;
    SCOPED_TRACE(describe(problem));
    EXPECT_TRUE(same_bits(run(problem).y, run(of_one_rank(problem)).y));
  }
}

TEST(Linear, SequenceParallelismKeepsTheBitsOfTensorParallelism) {
  for (Problem problem : problems()) {
    SCOPED_TRACE(describe(problem));
    const Outcome divided = run(problem);
    problem.sequence_parallel = !problem.sequence_parallel;
    const Outcome whole = run(problem);
    EXPECT_TRUE(same_bits(divided.y, whole.y));
    EXPECT_TRUE(same_bits(divided.x_gradient, whole.x_gradient));
  }
}

// Returns the payload of one call on [rows][width], by operation; its name has "_v" where rows do not divide.
Payload one_call(const Problem& problem, const std::string& operation, std::int64_t width) {
  if (problem.ranks == 1) return {};
  const bool varies = operation != "all_reduce" && problem.rows % problem.ranks != 0;
  return {{operation + (varies ? "_v" : ""), {1, static_cast<std::uint64_t>(problem.rows * width) * sizeof(float)}}};
}

TEST(Linear, CommunicatesTheBytesOfTheClosedForms) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(describe(problem));
    const bool column = problem.kind == Kind::Column;
    const std::int64_t width = column ? problem.inputs : problem.outputs;
    const bool divided = problem.sequence_parallel;
    const Payload sum = one_call(problem, divided ? "reduce_scatter" : "all_reduce", width);
    const Payload gather = divided ? one_call(problem, "all_gather", width) : Payload{};
    for (const auto& traffic : run(problem).traffic) {
      EXPECT_EQ(traffic[0], column ? gather : sum) << "forward";
      EXPECT_EQ(traffic[1], column ? sum : gather) << "backward";
      EXPECT_EQ(traffic[2], gather) << "weights";
    }
  }
}

// One rank does not sum. The bound above is narrow enough to notice it.
TEST(Linear, AMissingSumExceedsTheBound) {
  for (const Kind kind : {Kind::Column, Kind::Row}) {
    const Problem problem{.kind = kind, .ranks = 2, .summed = false};
    EXPECT_GT(worst_difference(run(problem), run(of_one_rank(problem))), 1000 * kFloat32Bound);
  }
}

TEST(Linear, DescribesItsParametersForTheirOwners) {
  on_ranks(2, "tp", [](TestRank rank) {
    for (const bool sequence_parallel : {false, true}) {
      TensorRegion region(rank.group, sequence_parallel, rank.memory);
      ParameterList parameters;
      const LinearOptions options{
          .name = "a", .inputs = 4, .outputs = 6, .bias = true, .initial_deviation = 0.5f, .unit = 3};
      const ColumnParallelLinear column(parameters, options, region);
      LinearOptions second = options;
      second.name = "b";
      const RowParallelLinear row(parameters, second, region);
      EXPECT_EQ(column.outputs_here(), 3);
      EXPECT_EQ(row.inputs_here(), 2);
      const auto local = [&](const char* name) { return parameters.find(name)->local_shape(); };
      EXPECT_THAT(local("a.weight"), testing::ElementsAre(4, 3));
      EXPECT_THAT(local("a.bias"), testing::ElementsAre(3));
      EXPECT_THAT(local("b.weight"), testing::ElementsAre(2, 6));
      EXPECT_THAT(local("b.bias"), testing::ElementsAre(6));
      for (const Parameter& parameter : parameters.all()) {
        const bool weight = parameter.shape.size() == 2;
        EXPECT_EQ(parameter.decays, weight) << parameter.name;
        EXPECT_EQ(parameter.initial_deviation, weight ? 0.5f : 0.0f) << parameter.name;
        EXPECT_EQ(parameter.unit, 3) << parameter.name;
        EXPECT_EQ(parameter.gradient_is_partial, sequence_parallel && parameter.name == "b.bias") << parameter.name;
      }
    }
  });
}

TEST(Linear, RefusesWhatDoesNotFitNamingItself) {
  CommunicationAccounting traffic;
  MemoryAccounting memory;
  Group alone("tp", traffic);
  TensorRegion region(alone, false, memory);
  ParameterList parameters;
  const auto refused = [&](const std::function<void()>& call, const std::string& message) {
    const Error error = error_of(call);
    EXPECT_EQ(error.code, ErrorCode::InvalidArgument);
    EXPECT_EQ(error.message, message);
  };
  const auto make = [&](const LinearOptions& options) { ColumnParallelLinear layer(parameters, options, region); };
  refused([&] { make({.name = "qkv", .inputs = 0, .outputs = 6}); },
          "qkv: inputs and outputs must be at least 1, but are 0 and 6");
  refused(
      [&] {
        make({.name = "qkv", .inputs = 4, .outputs = 6, .ranges = {{4, 3}}});
      },
      "qkv: a range of 3 from 4 on is not inside of 6");

  const ColumnParallelLinear layer(parameters, {.name = "qkv", .inputs = 4, .outputs = 6}, region);
  std::vector<float> x(8);
  std::vector<float> y(12);
  const Error missing = error_of([&] { layer.forward(2, x, y); });
  EXPECT_EQ(missing.code, ErrorCode::InvalidUsage);
  EXPECT_EQ(missing.message,
            "qkv.weight: its value is not here: before_forward or before_backward of unit 0 was left out");
  const Storage storage(parameters);
  refused([&] { layer.forward(3, x, y); }, "qkv.weight: a product has 12 elements, but must have 18");
  std::vector<float> short_x(7);
  refused([&] { layer.forward(2, short_x, y); }, "qkv.weight: an activation has 7 elements, but must have 8");
}

}  // namespace
}  // namespace wreath::training::test::linear
