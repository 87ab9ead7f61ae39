// The layers are compared with float64 references, and their gradients with differences of those.
#include "training/compute/layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tests/training/math/instruction_sets.hpp"
#include "tests/training/math/values.hpp"

namespace wreath::training {
namespace {

constexpr std::size_t kRows = 3;

std::vector<double> layer_norm_reference(const std::vector<double>& x, const std::vector<double>& weight,
                                         const std::vector<double>& bias) {
  const std::size_t width = weight.size();
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    const double* in = x.data() + row * width;
    double mean = 0;
    double variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += in[i] / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) variance += (in[i] - mean) * (in[i] - mean) / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      y[row * width + i] = (in[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + (bias.empty() ? 0.0 : bias[i]);
    }
  }
  return y;
}

struct LayerNorm {
  explicit LayerNorm(std::size_t width, bool biased)
      : x(random_values(kRows * width, 1)),
        weight(random_values(width, 2)),
        bias(random_values(biased ? width : 0, 3)),
        dy(random_values(kRows * width, 4)),
        y(kRows * width) {
    layer_norm_forward(x, weight, bias, y, saved());
  }
  LayerNormSaved saved() { return {mean, deviation}; }
  std::vector<float> x, weight, bias, dy, y;
  std::vector<float> mean = std::vector<float>(kRows);
  std::vector<float> deviation = std::vector<float>(kRows);
};

class LayerNorms : public testing::TestWithParam<std::size_t> {};  // by width
INSTANTIATE_TEST_SUITE_P(Widths, LayerNorms, testing::Values(2, 7, 15, 16, 17, 33, 128, 384));

TEST_P(LayerNorms, ForwardIsTheReference) {
  with_every_instruction_set([] {
    for (const bool biased : {false, true}) {
      const LayerNorm norm(GetParam(), biased);
      const auto expected = layer_norm_reference(widened(norm.x), widened(norm.weight), widened(norm.bias));
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(norm.y[i], expected[i], 2e-6) << i;
    }
  });
}

TEST_P(LayerNorms, GradientsAreDifferencesOfTheReference) {
  with_every_instruction_set([] {
    LayerNorm norm(GetParam(), true);
    std::vector<float> dx(norm.x.size(), 0.5f), dw(GetParam(), 0.25f), db(GetParam(), 0.125f);
    layer_norm_backward(norm.x, norm.weight, norm.saved(), norm.dy, dx);
    layer_norm_backward_weights(norm.x, norm.saved(), norm.dy, dw, db);
    auto x = widened(norm.x), weight = widened(norm.weight), bias = widened(norm.bias);
    const auto loss = [&] { return weighted_sum(layer_norm_reference(x, weight, bias), norm.dy); };
    for (std::size_t i = 0; i < x.size(); i += 1 + i / 20) EXPECT_NEAR(dx[i], 0.5 + derivative(x[i], loss), 1e-5) << i;
    for (std::size_t i = 0; i < weight.size(); ++i) {
      EXPECT_NEAR(dw[i], 0.25 + derivative(weight[i], loss), 2e-6) << i;
      EXPECT_NEAR(db[i], 0.125 + derivative(bias[i], loss), 2e-6) << i;
    }
    layer_norm_backward_weights(norm.x, norm.saved(), norm.dy, dw, {});
  });
}

// Each row alone, at an unaligned address, has the same bits as among other rows.
TEST_P(LayerNorms, RowsDoNotDependOnOthersNorOnWhereTheyLie) {
  with_every_instruction_set([] {
    const std::size_t width = GetParam();
    LayerNorm norm(width, true);
    std::vector<float> dx(norm.x.size());
    layer_norm_backward(norm.x, norm.weight, norm.saved(), norm.dy, dx);
    for (std::size_t row = 0; row < kRows; ++row) {
      const auto from = static_cast<std::ptrdiff_t>(row * width);
      std::vector<float> x(width + 1), dy(width + 1), y(width + 3), alone(width + 3);
      std::copy_n(norm.x.begin() + from, width, x.begin() + 1);
      std::copy_n(norm.dy.begin() + from, width, dy.begin() + 1);
      float mean, deviation;
      const LayerNormSaved saved{{&mean, 1}, {&deviation, 1}};
      const auto inner = [&](std::vector<float>& of, std::size_t first) { return std::span(of).subspan(first, width); };
      layer_norm_forward(inner(x, 1), norm.weight, norm.bias, inner(y, 3), saved);
      layer_norm_backward(inner(x, 1), norm.weight, saved, inner(dy, 1), inner(alone, 3));
      EXPECT_TRUE(std::equal(y.begin() + 3, y.end(), norm.y.begin() + from));
      EXPECT_TRUE(std::equal(alone.begin() + 3, alone.end(), dx.begin() + from));
    }
  });
}

double gelu_reference(Gelu kind, double x) {
  if (kind == Gelu::Exact) return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2);
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

class Gelus : public testing::TestWithParam<Gelu> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Gelus, testing::Values(Gelu::Exact, Gelu::Tanh));

std::vector<float> gelu_inputs() {
  std::vector<float> x;
  for (int i = -120007; i <= 120000; i += 13) x.push_back(static_cast<float>(i) * 1e-4f);
  for (const float large : {20.0f, 1e4f, 1e18f}) {
    x.push_back(large);
    x.push_back(-large);
  }
  return x;
}

TEST_P(Gelus, ForwardIsTheReference) {
  with_every_instruction_set([] {
    const std::vector<float> x = gelu_inputs();
    std::vector<float> y(x.size());
    gelu_forward(GetParam(), x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double bound = (GetParam() == Gelu::Exact ? 1.2e-7 : 1.5e-7) * std::abs(double{x[i]});
      EXPECT_NEAR(y[i], gelu_reference(GetParam(), double{x[i]}), bound) << x[i];
      if (x[i] < -1e3f) {
        EXPECT_EQ(y[i], 0.0f);
      }
    }
  });
}

TEST_P(Gelus, GradientIsTheDifferenceOfTheReferenceAlsoInPlace) {
  with_every_instruction_set([] {
    std::vector<float> x = gelu_inputs();
    x.resize(x.size() - 6);
    const std::vector<float> dy = random_values(x.size(), 5);
    std::vector<float> dx(x.size());
    std::vector<float> in_place = dy;
    gelu_backward(GetParam(), x, dy, dx);
    gelu_backward(GetParam(), x, in_place, in_place);
    EXPECT_EQ(dx, in_place);
    for (std::size_t i = 0; i < x.size(); ++i) {
      double at = double{x[i]};
      const double slope = derivative(at, [&] { return gelu_reference(GetParam(), at); });
      EXPECT_NEAR(dx[i], double{dy[i]} * slope, 6e-7) << x[i];
    }
  });
}

// An element's bits are the same in a vector and in the rest beside the last whole vector.
TEST_P(Gelus, ElementsDoNotDependOnWhereTheyLie) {
  with_every_instruction_set([] {
    const std::vector<float> x = random_values(41, 6);
    std::vector<float> whole(x.size()), slopes(x.size());
    const std::vector<float> dy = random_values(41, 7);
    gelu_forward(GetParam(), x, whole);
    gelu_backward(GetParam(), x, dy, slopes);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float y, slope;
      gelu_forward(GetParam(), {&x[i], 1}, {&y, 1});
      gelu_backward(GetParam(), {&x[i], 1}, {&dy[i], 1}, {&slope, 1});
      EXPECT_EQ(y, whole[i]);
      EXPECT_EQ(slope, slopes[i]);
    }
  });
}

TEST(Gelu, OfNoNumberIsNoNumber) {
  const std::vector<float> x(17, std::numeric_limits<float>::quiet_NaN());
  for (const Gelu kind : {Gelu::Exact, Gelu::Tanh}) {
    std::vector<float> y(17);
    gelu_forward(kind, x, y);
    for (const float value : y) EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Bias, IsAddedToEachRowAndItsGradientSumsRows) {
  std::vector<float> y = {1, 2, 3, 4, 5, 6};
  bias_forward(y, std::vector<float>{10, 20, 30});
  EXPECT_EQ(y, (std::vector<float>{11, 22, 33, 14, 25, 36}));
  std::vector<float> gradient = {1, 1, 1};
  bias_backward_weights(y, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{26, 48, 70}));
}

TEST(Embedding, TakesRowsOfItsTableAndZerosForTokensOutside) {
  const std::vector<float> table = {1, 2, 3, 4};  // tokens 5 and 6
  const std::vector<std::int32_t> tokens = {6, 4, 5, 7, 6};
  std::vector<float> y(10, -1.0f);
  embedding_forward(tokens, table, 5, 2, y);
  EXPECT_EQ(y, (std::vector<float>{3, 4, 0, 0, 1, 2, 0, 0, 3, 4}));
  std::vector<float> gradient = {0.5f, 0.5f, 0.5f, 0.5f};
  embedding_backward(tokens, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5, 2, gradient);
  EXPECT_EQ(gradient, (std::vector<float>{5.5f, 6.5f, 10.5f, 12.5f}));
}

TEST(Elements, AreAddedAndScaledAndNoneBeyond) {
  with_every_instruction_set([] {
    for (const std::size_t count : {0u, 1u, 15u, 16u, 17u, 40u}) {
      const std::vector<float> x = random_values(count, 8);
      std::vector<float> y(count + 4, 2.0f);
      add(std::span(y).first(count), x);
      scale(std::span(y).first(count), 3.0f);
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], i < count ? (2.0f + x[i]) * 3.0f : 2.0f);
    }
  });
}

}  // namespace
}  // namespace wreath::training
