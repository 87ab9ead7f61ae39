// The vocabulary is divided over ranks. Embedding, output layer and loss are those of one rank, and padding has no part
// in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "tests/training/tensor_parallel/ranks.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training::test::vocabulary {
namespace {

constexpr std::int64_t kWidth = 24;
constexpr float kScale = 1.0f / 7;

struct Problem {
  int ranks = 1;
  bool sequence_parallel = false;
  std::int64_t rows = 12;
  std::int64_t vocabulary = 65;
};

struct Outcome {
  std::vector<float> embedded;
  std::vector<float> logits;           // [rows][vocabulary]
  std::vector<float> logits_gradient;  // [rows][vocabulary]
  std::vector<float> x_gradient;
  WholeGradients gradients;  // of the embedding and the output layer
  double loss = 0;
  std::vector<std::array<Payload, 6>> traffic;  // of each rank, in the order of calls
};

std::vector<std::int32_t> draw_tokens(const char* name, const Problem& problem) {
  const RandomStream stream(3, name);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < problem.rows; ++i) {
    const auto bound = static_cast<std::uint64_t>(problem.vocabulary);
    tokens.push_back(static_cast<std::int32_t>(stream.below(bound, static_cast<std::uint64_t>(i))));
  }
  tokens.front() = static_cast<std::int32_t>(problem.vocabulary - 1);  // beside the padding
  return tokens;
}

// Puts this rank's columns into the whole [rows][vocabulary]. Expects that its padding is zero.
void put_columns(const Problem& problem, const Range& columns, const std::vector<float>& here,
                 std::vector<float>& whole) {
  whole.resize(static_cast<std::size_t>(problem.rows * problem.vocabulary));
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    for (std::int64_t i = 0; i < columns.count; ++i) {
      const float value = here[static_cast<std::size_t>(row * columns.count + i)];
      const std::int64_t token = columns.begin + i;
      if (token < problem.vocabulary) {
        whole[static_cast<std::size_t>(row * problem.vocabulary + token)] = value;
      } else {
        EXPECT_EQ(value, 0.0f) << "padding of row " << row;
      }
    }
  }
}

void run_rank(const Problem& problem, TestRank rank, std::mutex& mutex, Outcome& outcome) {
  TensorRegion region(rank.group, problem.sequence_parallel, rank.memory);
  ParameterList parameters;
  VocabParallelEmbedding layer(parameters, {.name = "wte", .vocabulary = problem.vocabulary, .width = kWidth}, region);
  const Storage storage(parameters);
  const Range held = region.held_rows(problem.rows);
  const Range columns{rank.group.rank() * layer.vocabulary_here(), layer.vocabulary_here()};
  const std::vector<std::int32_t> tokens = draw_tokens("tokens", problem);
  const std::vector<std::int32_t> targets = draw_tokens("targets", problem);
  const std::vector<float> x = rows_of(normals("x", problem.rows * kWidth), kWidth, held);
  const std::vector<float> dy = rows_of(normals("dy", problem.rows * kWidth), kWidth, held);
  std::vector<float> embedded(x.size());
  std::vector<float> dx(x.size());
  std::vector<float> logits(static_cast<std::size_t>(problem.rows * columns.count));

  std::array<Payload, 6> traffic;
  layer.forward(tokens, embedded);
  traffic[0] = take(rank.traffic);
  layer.logits(problem.rows, x, logits);
  traffic[1] = take(rank.traffic);
  const std::vector<float> kept = logits;
  const double loss = sum_of(layer.cross_entropy(logits, targets, kScale));
  traffic[2] = take(rank.traffic);
  layer.logits_backward(problem.rows, logits, dx);
  traffic[3] = take(rank.traffic);
  layer.logits_backward_weights(problem.rows, x, logits);
  traffic[4] = take(rank.traffic);
  layer.backward_weights(tokens, dy);
  traffic[5] = take(rank.traffic);

  const std::lock_guard lock(mutex);
  outcome.embedded.resize(static_cast<std::size_t>(problem.rows * kWidth));
  outcome.x_gradient.resize(outcome.embedded.size());
  put_rows(outcome.embedded, kWidth, held, embedded);
  put_rows(outcome.x_gradient, kWidth, held, dx);
  put_columns(problem, columns, kept, outcome.logits);
  put_columns(problem, columns, logits, outcome.logits_gradient);
  outcome.gradients.put(layer.table());
  for (std::int64_t i = 0; i < columns.count * kWidth; ++i) {
    if (columns.begin + i / kWidth < problem.vocabulary) continue;
    EXPECT_EQ(layer.table().gradient[static_cast<std::size_t>(i)], 0.0f) << "padding";
  }
  if (!outcome.traffic.empty()) {
    EXPECT_EQ(loss, outcome.loss) << "ranks see the same loss";
  }
  outcome.loss = loss;
  outcome.traffic.push_back(traffic);
}

Outcome run(const Problem& problem) {
  std::mutex mutex;
  Outcome outcome;
  on_ranks(problem.ranks, "tp", [&](TestRank rank) { run_rank(problem, rank, mutex, outcome); });
  return outcome;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (const bool sequence_parallel : {false, true}) {
      for (const std::int64_t rows : {12, 7}) {
        all.push_back({.ranks = ranks, .sequence_parallel = sequence_parallel, .rows = rows});
      }
    }
  }
  all.push_back({.ranks = 4, .vocabulary = 2});  // two ranks have padding alone
  return all;
}

std::string describe(const Problem& problem) {
  return "ranks " + std::to_string(problem.ranks) + (problem.sequence_parallel ? ", sequence parallel" : "") +
         ", rows " + std::to_string(problem.rows) + ", vocabulary " + std::to_string(problem.vocabulary);
}

Problem of_one_rank(Problem problem) {
  problem.ranks = 1;
  problem.sequence_parallel = false;
  return problem;
}

double worst_difference(const Outcome& a, const Outcome& b) {
  return std::max({relative_difference(a.embedded, b.embedded), relative_difference(a.logits, b.logits),
                   relative_difference(a.logits_gradient, b.logits_gradient),
                   relative_difference(a.x_gradient, b.x_gradient),
                   relative_difference(a.gradients.all().at("wte.weight"), b.gradients.all().at("wte.weight")),
                   std::abs(a.loss - b.loss) / b.loss});
}

// Computes the loss and the gradient of logits in float64.
double reference_loss(const Problem& problem, const std::vector<float>& logits, std::vector<float>& gradient) {
  const std::vector<std::int32_t> targets = draw_tokens("targets", problem);
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const float* of_row = logits.data() + row * static_cast<std::size_t>(problem.vocabulary);
    double sum = 0;
    for (std::int64_t i = 0; i < problem.vocabulary; ++i) sum += std::exp(double{of_row[i]});
    for (std::int64_t i = 0; i < problem.vocabulary; ++i) {
      const double probability = std::exp(double{of_row[i]}) / sum;
      gradient.push_back(static_cast<float>(double{kScale} * (probability - (i == targets[row] ? 1.0 : 0.0))));
    }
    loss += std::log(sum) - double{of_row[targets[row]]};
  }
  return loss;
}

TEST(Vocabulary, GivesOnManyRanksWhatItGivesOnOne) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(describe(problem));
    EXPECT_LT(worst_difference(run(problem), run(of_one_rank(problem))), kFloat32Bound);
  }
}

TEST(Vocabulary, LossAndGradientAreThoseOfFloat64) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(describe(problem));
    const Outcome outcome = run(problem);
    std::vector<float> gradient;
    const double loss = reference_loss(problem, outcome.logits, gradient);
    EXPECT_NEAR(outcome.loss / loss, 1, kFloat32Bound);
    EXPECT_LT(relative_difference(outcome.logits_gradient, gradient), kFloat32Bound);
  }
}

// One more token takes part in the softmax. The bound must show it, as it would show padding there.
TEST(Vocabulary, OneMoreTokenExceedsTheBound) {
  const Problem problem{};
  const Outcome outcome = run(problem);
  std::vector<float> padded;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::vector<float> logits = rows_of(outcome.logits, problem.vocabulary, {row, 1});
    padded.insert(padded.end(), logits.begin(), logits.end());
    padded.push_back(0);
  }
  const std::vector<std::int32_t> targets = draw_tokens("targets", problem);
  CommunicationAccounting traffic;
  MemoryAccounting memory;
  Group alone("tp", traffic);
  TensorRegion region(alone, false, memory);
  ParameterList parameters;
  const VocabParallelEmbedding layer(parameters, {.name = "wte", .vocabulary = 66, .width = kWidth}, region);
  EXPECT_GT(sum_of(layer.cross_entropy(padded, targets, kScale)) / outcome.loss - 1, 1000 * kFloat32Bound);
}

TEST(Vocabulary, SequenceParallelismKeepsTheBitsOfTensorParallelism) {
  for (Problem problem : problems()) {
    SCOPED_TRACE(describe(problem));
    const Outcome divided = run(problem);
    problem.sequence_parallel = !problem.sequence_parallel;
    const Outcome whole = run(problem);
    EXPECT_TRUE(same_bits(divided.embedded, whole.embedded));
    EXPECT_TRUE(same_bits(divided.logits, whole.logits));
    EXPECT_TRUE(same_bits(divided.x_gradient, whole.x_gradient));
    EXPECT_EQ(divided.loss, whole.loss);
  }
}

TEST(Vocabulary, CommunicatesTheBytesOfTheClosedForms) {
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(describe(problem));
    const bool divided = problem.sequence_parallel;
    const std::string varying = problem.rows % problem.ranks != 0 ? "_v" : "";
    const auto bytes = [&](std::int64_t width) { return static_cast<std::uint64_t>(problem.rows * width * 4); };
    const auto unless_alone = [&](const Payload& payload) { return problem.ranks == 1 ? Payload{} : payload; };
    const Payload sum = unless_alone({{divided ? "reduce_scatter" + varying : "all_reduce", {1, bytes(kWidth)}}});
    const Payload gather = unless_alone(divided ? Payload{{"all_gather" + varying, {1, bytes(kWidth)}}} : Payload{});
    for (const auto& [embedding, logits, loss, backward, weights, embedding_weights] : run(problem).traffic) {
      EXPECT_EQ(embedding, sum);
      EXPECT_EQ(logits, gather);
      EXPECT_EQ(loss, unless_alone({{"all_reduce", {3, 3 * bytes(1)}}}));
      EXPECT_EQ(backward, sum);
      EXPECT_EQ(weights, gather);
      EXPECT_EQ(embedding_weights, gather);
    }
  }
}

TEST(Vocabulary, TheOutputLayerMayShareTheTable) {
  on_ranks(3, "tp", [](TestRank rank) {
    TensorRegion region(rank.group, false, rank.memory);
    ParameterList parameters;
    const VocabularyOptions options{.name = "wte", .vocabulary = 65, .width = 8, .tied = true, .unit = 2};
    const VocabParallelEmbedding embedding(parameters, options, region);
    const VocabParallelEmbedding output(embedding.table(), options, region);
    EXPECT_EQ(parameters.all().size(), 1u);
    EXPECT_EQ(&output.table(), &embedding.table());
    EXPECT_EQ(output.vocabulary_here(), 22);
    const Parameter& table = output.table();
    EXPECT_THAT(table.local_shape(), testing::ElementsAre(22, 8));
    EXPECT_EQ(table.ranges.front().begin, 22 * rank.group.rank());
    EXPECT_TRUE(table.tied && table.decays && !table.gradient_is_partial);
    EXPECT_EQ(table.unit, 2);
  });
}

TEST(Vocabulary, RefusesTokensOutsideOfItNamingRowAndValue) {
  on_ranks(2, "tp", [](TestRank rank) {
    TensorRegion region(rank.group, false, rank.memory);
    ParameterList parameters;
    VocabParallelEmbedding layer(parameters, {.name = "wte", .vocabulary = 5, .width = 2}, region);
    const Storage storage(parameters);
    std::vector<float> logits(9);
    std::vector<float> embedded(6);
    // Token 5 is padding of the second rank.
    const Error of_target = error_of([&] { layer.cross_entropy(logits, std::array<std::int32_t, 3>{0, 5, 1}, 1); });
    EXPECT_EQ(of_target.code, ErrorCode::InvalidArgument);
    EXPECT_EQ(of_target.message, "wte.weight: the target of row 1 is 5, but must be in 0 .. 4");
    const Error of_token = error_of([&] { layer.forward(std::array<std::int32_t, 3>{0, 4, -1}, embedded); });
    EXPECT_EQ(of_token.code, ErrorCode::InvalidArgument);
    EXPECT_EQ(of_token.message, "wte.weight: the token of row 2 is -1, but must be in 0 .. 4");
    EXPECT_EQ(error_of([&] { layer.cross_entropy(logits, std::array<std::int32_t, 2>{}, 1); }).message,
              "wte.weight: an activation of logits has 9 elements, but must have 6");
  });
}

TEST(Region, PartsAreNearEqualAndInOrder) {
  for (const std::int64_t count : {0, 1, 7, 12}) {
    for (int parts = 1; parts <= 5; ++parts) {
      std::int64_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const Range part = part_of(count, parts, index);
        EXPECT_EQ(part.begin, next);
        EXPECT_EQ(part.count, (count + parts - 1 - index) / parts);
        next += part.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace wreath::training::test::vocabulary
