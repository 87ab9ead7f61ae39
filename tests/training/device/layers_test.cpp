// The layers run on the host device, whose memory the host's own code cannot touch, or on a GPU where there is one.
// They are compared with the CPU's.
#include "training/compute/layers.hpp"

#include <limits>

#include "tests/training/device/on_device.hpp"
#include "training/compute/convert.hpp"
#include "training/compute/magnitudes.hpp"
#include "training/compute/matrix_product.hpp"
#include "training/optimizer/optimizer.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training::test {
namespace {

constexpr std::size_t kRows = 7;
constexpr std::size_t kWidth = 33;

// The grids have any shape: numbers of threads that are no power of two, and more threads than there is work for.
class Layers : public testing::TestWithParam<ComputeOptions> {
 protected:
  Place place_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Grids, Layers,
                         testing::Values(ComputeOptions{1, 1}, ComputeOptions{3, 5}, ComputeOptions{2, 70}),
                         [](const auto& row) {
                           return std::to_string(row.param.host_blocks) + "x" + std::to_string(row.param.host_threads);
                         });

// Returns y and the gradients of x, weight and bias, one after the other.
Values layer_norm(Place& place) {
  const There x(place, random_values(kRows * kWidth, 1)), weight(place, random_values(kWidth, 2));
  const There bias(place, random_values(kWidth, 3)), dy(place, random_values(kRows * kWidth, 4));
  const There dx(place, random_values(kRows * kWidth, 5)), weight_gradient(place, random_values(kWidth, 6));
  const There bias_gradient(place, random_values(kWidth, 7)), y(place, Values(kRows * kWidth));
  const There mean(place, Values(kRows)), reciprocal(place, Values(kRows));
  const LayerNormSaved saved{mean, reciprocal};
  layer_norm_forward(x, weight, bias, y, saved);
  layer_norm_backward(x, weight, saved, dy, dx);
  layer_norm_backward_weights(x, saved, dy, weight_gradient, bias_gradient);
  Values all;
  for (const Values& part : {y.read(), dx.read(), weight_gradient.read(), bias_gradient.read()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST_P(Layers, LayerNormIsTheCpus) {
  const Values x = random_values(kRows * kWidth, 1), weight = random_values(kWidth, 2), bias = random_values(kWidth, 3);
  const Values dy = random_values(kRows * kWidth, 4);
  Values dx = random_values(kRows * kWidth, 5);
  Values weight_gradient = random_values(kWidth, 6), bias_gradient = random_values(kWidth, 7);
  Values y(kRows * kWidth), mean(kRows), reciprocal(kRows);
  const LayerNormSaved saved{mean, reciprocal};
  layer_norm_forward(x, weight, bias, y, saved);
  layer_norm_backward(x, weight, saved, dy, dx);
  layer_norm_backward_weights(x, saved, dy, weight_gradient, bias_gradient);
  Values expected = y;
  for (const Values& part : {dx, weight_gradient, bias_gradient}) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  expect_near(layer_norm(place_), expected, 1e-5f);
}

TEST(LayersOfGrids, BlocksDoNotChangeBits) {
  Place one(ComputeOptions{1, 5}), four(ComputeOptions{4, 5});
  EXPECT_EQ(layer_norm(one), layer_norm(four));
}

TEST_P(Layers, BiasesAreTheCpus) {
  Values y = random_values(kRows * kWidth, 1), gradient = random_values(kWidth, 3);
  const Values bias = random_values(kWidth, 2);
  const There y_there(place_, y), bias_there(place_, bias), gradient_there(place_, gradient);
  bias_forward(y_there, bias_there);
  bias_forward(y, bias);
  EXPECT_EQ(y_there.read(), y);
  bias_backward_weights(y_there, gradient_there);
  bias_backward_weights(y, gradient);
  expect_near(gradient_there.read(), gradient, 1e-5f);
}

TEST_P(Layers, SumsFillsAndCopiesHaveTheCpusBits) {
  Values y = random_values(501, 1), rows(3 * 40);
  const Values x = random_values(501, 2);
  const There y_there(place_, y), x_there(place_, x), rows_there(place_, rows);
  add(y_there, x_there);
  scale(y_there, 0.3f);
  fill(y_there.span().subspan(7, 5), -2.0f);
  copy_rows({x_there.data() + 2, 11}, {rows_there.data() + 1, 40}, 3, 9);
  add(y, x);
  scale(y, 0.3f);
  fill(std::span(y).subspan(7, 5), -2.0f);
  copy_rows({x.data() + 2, 11}, {rows.data() + 1, 40}, 3, 9);
  EXPECT_EQ(y_there.read(), y);
  EXPECT_EQ(rows_there.read(), rows);
}

TEST_P(Layers, GeluIsTheCpus) {
  Values x = random_values(501, 8, 4.0f);
  x.insert(x.end(), {0.0f, -100.0f, 100.0f});
  const Values dy = random_values(x.size(), 9);
  for (const Gelu kind : {Gelu::Exact, Gelu::Tanh}) {
    Values y(x.size()), dx(x.size());
    gelu_forward(kind, x, y);
    gelu_backward(kind, x, dy, dx);
    const There x_there(place_, x), y_there(place_, y), gradient(place_, dy);
    gelu_forward(kind, x_there, y_there);
    expect_near(y_there.read(), y, 1e-5f);
    gelu_backward(kind, x_there, gradient, gradient);
    expect_near(gradient.read(), dx, 1e-5f);
  }
}

TEST_P(Layers, EmbeddingsHaveTheCpusBits) {
  constexpr std::int64_t kTable = 6;
  const std::vector<std::int32_t> tokens{3, 9, 4, 3, 2, 8, 3, 11, 5};  // the table begins at 3
  const Values table = random_values(kTable * kWidth, 1), dy = random_values(tokens.size() * kWidth, 2);
  Values gradient = random_values(kTable * kWidth, 3), y(tokens.size() * kWidth);
  const There table_there(place_, table), dy_there(place_, dy), gradient_there(place_, gradient), y_there(place_, y);
  embedding_forward(tokens, table_there, 3, kWidth, y_there);
  embedding_forward(tokens, table, 3, kWidth, y);
  EXPECT_EQ(y_there.read(), y);
  embedding_backward(tokens, dy_there, 3, kWidth, gradient_there);
  embedding_backward(tokens, dy, 3, kWidth, gradient);
  EXPECT_EQ(gradient_there.read(), gradient);
}

TEST_P(Layers, ConversionsHaveTheCpusBits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Values values = random_values(700, 4, 3.0f);
  for (std::size_t i = 0; i < 300; ++i) values[i] = std::ldexp(values[i], static_cast<int>(i) - 150);
  values.insert(values.end(), {0.0f, -0.0f, kInfinity, -kInfinity, 1e38f, 448.0f, 465.0f, 65520.0f, -57345.0f, 1e-40f});
  const There there(place_, values), rounded_there(place_, values);
  for (const DataType format : {DataType::BFloat16, DataType::Float16, DataType::Float8E4M3, DataType::Float8E5M2}) {
    Values rounded(values.size());
    round_to(format, there, rounded_there, 4.0f);
    round_to(format, values, rounded, 4.0f);
    const Values of_device = rounded_there.read();
    for (std::size_t i = 0; i < values.size(); ++i) {
      // A GPU's arithmetic makes a NaN of its own.
      if (std::isnan(rounded[i]) && std::isnan(of_device[i])) continue;
      EXPECT_EQ(std::bit_cast<std::uint32_t>(of_device[i]), std::bit_cast<std::uint32_t>(rounded[i])) << values[i];
    }
  }
  for (const DataType format : {DataType::BFloat16, DataType::Float16}) {
    std::vector<std::uint16_t> words(values.size());
    const There words_there(place_, words);
    Values wide(values.size());
    narrow(format, there, words_there);
    narrow(format, values, words);
    EXPECT_EQ(words_there.read(), words);
    widen(format, words_there, rounded_there);
    widen(format, words, wide);
    EXPECT_EQ(rounded_there.read(), wide);
  }
  EXPECT_EQ(highest_magnitude(there.span().first(700)), highest_magnitude(std::span(values).first(700)));
}

struct ProductCase {
  std::int64_t rows, depth, columns;
};

TEST_P(Layers, MatrixProductsHaveTheCpusBits) {
  for (const ProductCase& of : {ProductCase{1, 1, 1}, ProductCase{65, 17, 3}, ProductCase{30, 40, 129}}) {
    for (const bool transposed : {false, true}) {
      const auto size = [](std::int64_t a, std::int64_t b) { return static_cast<std::size_t>(a * b); };
      const Values left = random_values(size(of.rows, of.depth), 1),
                   right = random_values(size(of.depth, of.columns), 2);
      Values result = random_values(size(of.rows, of.columns + 2), 3);
      const There left_there(place_, left), right_there(place_, right), result_there(place_, result);
      const auto run = [&](const float* a, const float* b, float* into) {
        const MatrixView left_view =
            transposed ? matrix(a, of.depth, of.rows).transposed() : matrix(a, of.rows, of.depth);
        const MatrixView right_view =
            transposed ? matrix(b, of.columns, of.depth).transposed() : matrix(b, of.depth, of.columns);
        matrix_product(left_view, right_view, into, of.columns + 2, transposed ? Accumulate::Yes : Accumulate::No);
      };
      run(left_there.data(), right_there.data(), result_there.data());
      run(left.data(), right.data(), result.data());
      if (__builtin_cpu_supports("fma")) {
        EXPECT_EQ(result_there.read(), result) << of.rows << " x " << of.depth << " x " << of.columns;
      } else {
        expect_near(result_there.read(), result, 1e-5f);
      }
    }
  }
}

TEST_P(Layers, OptimizersAndTheNormHaveTheCpusBits) {
  constexpr std::size_t kCount = 203;
  Parameter parameter;
  parameter.decays = true;
  Values value = random_values(kCount, 11), gradient = random_values(kCount, 12);
  const There value_there(place_, value), gradient_there(place_, gradient);
  MemoryAccounting memory;
  const std::vector<Piece> here{{&parameter, 0, value, gradient}}, there{{&parameter, 0, value_there, gradient_there}};
  for (const bool adamw : {true, false}) {
    const auto own = adamw ? make_adamw(here, {}, memory) : make_sgd();
    const auto others = adamw ? make_adamw(there, {}, place_.memory) : make_sgd();
    for (int step = 0; step < 3; ++step) {
      own->step(here, 1e-2f, 0.5f);
      others->step(there, 1e-2f, 0.5f);
    }
    EXPECT_EQ(value_there.read(), value);
  }
  CommunicationAccounting accounting;
  const auto world = std::make_shared<Communicator>();
  Mesh mesh = Mesh::create(world, {}, accounting).value();
  EXPECT_EQ(gradient_norm(there, false, mesh), gradient_norm(here, false, mesh));
}

TEST_P(Layers, CrossEntropyIsTheCpus) {
  constexpr std::int64_t kWords = 30;
  MemoryAccounting memory;
  CommunicationAccounting accounting;
  Group alone("tp", accounting);
  const std::vector<std::int32_t> targets{0, 11, 22, 3, 14, 29, 6};
  Values logits = random_values(kRows * kWords, 10, 5.0f);
  const There logits_there(place_, logits);
  ParameterList parameters;
  TensorRegion here(alone, false, memory), there(alone, false, place_.memory);
  const VocabularyOptions options{"wte", kWords, 4};
  VocabParallelEmbedding of_cpu(parameters, options, here), of_device(parameters, options, there);
  const double loss = sum_of(of_device.cross_entropy(logits_there, targets, 0.25f));
  EXPECT_NEAR(loss / sum_of(of_cpu.cross_entropy(logits, targets, 0.25f)), 1, 1e-6);
  expect_near(logits_there.read(), logits, 1e-6f);
}

}  // namespace
}  // namespace wreath::training::test
