// AdamW follows PyTorch's formulas in float64, and plain descent has no state.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "training/optimizer/optimizer.hpp"
#include "training/random/philox.hpp"

namespace wreath::training {
namespace {

// The reference is the single-tensor loop of torch.optim.AdamW.
struct Reference {
  AdamWOptions options;
  std::vector<double> value, first, second;
  int t = 0;
  void step(const std::vector<float>& gradient, double learning_rate, bool decays) {
    ++t;
    const double beta1 = options.beta1, beta2 = options.beta2;
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] *= 1 - learning_rate * (decays ? static_cast<double>(options.weight_decay) : 0.0);
      first[i] += (gradient[i] - first[i]) * (1 - beta1);
      second[i] = second[i] * beta2 + (1 - beta2) * gradient[i] * gradient[i];
      const double denominator = std::sqrt(second[i]) / std::sqrt(1 - std::pow(beta2, t)) + options.epsilon;
      value[i] -= learning_rate / (1 - std::pow(beta1, t)) * first[i] / denominator;
    }
  }
};

class AdamWTest : public testing::Test {
 protected:
  static constexpr std::size_t kCount = 1003;
  AdamWTest() : value(kCount), gradient(kCount) {
    matrix.decays = true;
    for (std::size_t i = 0; i < kCount; ++i) value[i] = values.normal(i);
  }
  void draw_gradient(int step) {
    const RandomStream stream(2, "gradient", static_cast<std::uint32_t>(step));
    for (std::size_t i = 0; i < kCount; ++i) gradient[i] = stream.normal(i) * (i % 7 == 0 ? 1e-5f : 1.0f);
  }
  // Returns two pieces, whose border is no multiple of a vector's lanes.
  std::vector<Piece> pieces() {
    const std::span<float> all(value);
    const std::span<const float> gradients(gradient);
    return {{&matrix, 0, all.first(131), gradients.first(131)}, {&vector, 0, all.subspan(131), gradients.subspan(131)}};
  }
  RandomStream values{1, "value"};
  MemoryAccounting memory;
  Parameter matrix, vector;
  std::vector<float> value, gradient;
};

TEST_F(AdamWTest, FollowsPyTorchsFormulas) {
  const AdamWOptions options;
  Reference reference{options, {value.begin(), value.end()}, std::vector<double>(kCount), std::vector<double>(kCount)};
  Reference undecayed = reference;
  const auto adamw = make_adamw(pieces(), options, memory);
  for (int step = 0; step < 50; ++step) {
    draw_gradient(step);
    adamw->step(pieces(), 1e-2f, 1);
    reference.step(gradient, static_cast<double>(1e-2f), true);
    undecayed.step(gradient, static_cast<double>(1e-2f), false);
  }
  // Values below 4 are rounded twice a step, by half an ulp (2^-23) each.
  const double bound = 50 * 2 * std::ldexp(1.0, -23);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_LT(std::abs(value[i]), 4);
    const Reference& expected = i < 131 ? reference : undecayed;
    EXPECT_NEAR(value[i], expected.value[i], bound) << i;
    EXPECT_NEAR(adamw->moments()[0].values[i], expected.first[i], 1e-6) << i;
    EXPECT_NEAR(adamw->moments()[1].values[i], expected.second[i], 1e-6) << i;
  }
  EXPECT_EQ(adamw->steps(), 50);
}

TEST_F(AdamWTest, BitsDoNotDependOnWhereAPieceIsCut) {
  draw_gradient(0);
  const std::vector<float> start = value;
  const auto whole = make_adamw(pieces(), {}, memory);
  for (int step = 0; step < 3; ++step) whole->step(pieces(), 1e-2f, 0.3f);
  const std::vector<float> expected = value;
  value = start;
  std::vector<Piece> cut;
  for (std::size_t i = 0; i < kCount; ++i) {
    cut.push_back({i < 131 ? &matrix : &vector, 0, std::span(value).subspan(i, 1),
                   std::span<const float>(gradient).subspan(i, 1)});
  }
  const auto single = make_adamw(cut, {}, memory);
  for (int step = 0; step < 3; ++step) single->step(cut, 1e-2f, 0.3f);
  EXPECT_EQ(value, expected);
}

TEST_F(AdamWTest, KeepsTwoMomentsAnElementAndRefusesOtherPieces) {
  const auto adamw = make_adamw(pieces(), {}, memory);
  EXPECT_EQ(memory.bytes(MemoryTag::Optimizer), 8 * kCount);
  const std::vector<Piece> fewer{pieces()[0]};
  EXPECT_THROW(adamw->step(fewer, 1e-2f, 1), Exception);
}

// Weights and moments are saved after some steps and put back. Training goes on with the same bits.
TEST_F(AdamWTest, GoesOnFromItsMomentsAndSteps) {
  const auto adamw = make_adamw(pieces(), {}, memory);
  const auto resumed = make_adamw(pieces(), {}, memory);
  draw_gradient(0);
  adamw->step(pieces(), 1e-2f, 1);
  for (std::size_t m = 0; m < 2; ++m) {
    const auto from = adamw->moments()[m].values;
    std::copy(from.begin(), from.end(), resumed->moments()[m].values.begin());
  }
  resumed->set_steps(adamw->steps());
  const std::vector<float> saved = value;
  draw_gradient(1);
  adamw->step(pieces(), 1e-2f, 1);
  const std::vector<float> expected = value;
  value = saved;
  resumed->step(pieces(), 1e-2f, 1);
  EXPECT_EQ(value, expected);
}

TEST_F(AdamWTest, PlainDescentHasNoState) {
  draw_gradient(0);
  const std::vector<float> start = value;
  const auto sgd = make_sgd();
  sgd->step(pieces(), 0.125f, 0.5f);
  for (std::size_t i = 0; i < kCount; ++i) EXPECT_EQ(value[i], start[i] - 0.125f * (0.5f * gradient[i]));
  EXPECT_TRUE(sgd->moments().empty());
}

}  // namespace
}  // namespace wreath::training
