// The layers' kernels on the host device, against the CPU's layers.
#include "kernels/block/layers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "kernels/block/kernels.hpp"
#include "src/device/library_device.hpp"
#include "training/math/layers.hpp"
#include "training/optimizer/optimizer.hpp"
#include "wreath/device.hpp"

namespace wreath {
namespace {

constexpr int kBlocks = 3;
constexpr int kThreads = 5;  // no power of two
constexpr std::size_t kRows = 7;
constexpr std::size_t kWidth = 33;

using Values = std::vector<float>;

Values random_values(std::size_t count, unsigned seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

LibraryDevice& device() { return static_cast<LibraryDevice&>(host_device()); }

// A vector's copy in memory of the device.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    memory_ = device().allocate(count_ * sizeof(T)).value();
    device().copy(memory_.data(), values.data(), count_ * sizeof(T)).value();
  }
  // As kernels have it.
  T* data() const { return reinterpret_cast<T*>(device().address_in_kernels(memory_.data())); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    device().copy(values.data(), memory_.data(), count_ * sizeof(T)).value();
    return values;
  }

 private:
  std::size_t count_;
  DeviceMemory memory_;
};

template <typename Run>
void launch(const Kernel& kernel, Run run, int blocks = kBlocks) {
  run.blocks = static_cast<std::uint32_t>(blocks);
  const std::unique_ptr<Stream> stream = device().make_stream().value();
  device().launch(*stream, kernel, {blocks, kThreads, &run, sizeof run}).value();
  stream->synchronize().value();
}

void expect_near(const Values& values, const Values& expected, float bound) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], bound * (1 + std::abs(expected[i]))) << "at " << i;
  }
}

// The result on `blocks` blocks: y and the gradients of x, weight and bias, one after the other.
Values layer_norm_on_device(int blocks) {
  const OnDevice x(random_values(kRows * kWidth, 1)), weight(random_values(kWidth, 2)), bias(random_values(kWidth, 3));
  const OnDevice dy(random_values(kRows * kWidth, 4)), dx(random_values(kRows * kWidth, 5));
  const OnDevice weight_gradient(random_values(kWidth, 6)), bias_gradient(random_values(kWidth, 7));
  const OnDevice y{Values(kRows * kWidth)}, mean{Values(kRows)}, reciprocal{Values(kRows)};
  LayerNormRun run{};
  run.x = x.data();
  run.weight = weight.data();
  run.bias = bias.data();
  run.y = y.data();
  run.mean = mean.data();
  run.reciprocal_deviation = reciprocal.data();
  run.y_gradient = dy.data();
  run.x_gradient = dx.data();
  run.weight_gradient = weight_gradient.data();
  run.bias_gradient = bias_gradient.data();
  run.rows = kRows;
  run.width = kWidth;
  launch(layer_norm_kernel(), run, blocks);
  launch(layer_norm_backward_kernel(), run, blocks);
  launch(layer_norm_backward_weights_kernel(), run, blocks);
  Values all;
  for (const Values& part : {y.read(), dx.read(), weight_gradient.read(), bias_gradient.read()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(DeviceLayers, LayerNormIsTheCpus) {
  const Values x = random_values(kRows * kWidth, 1), weight = random_values(kWidth, 2), bias = random_values(kWidth, 3);
  const Values dy = random_values(kRows * kWidth, 4);
  Values dx = random_values(kRows * kWidth, 5);
  Values weight_gradient = random_values(kWidth, 6), bias_gradient = random_values(kWidth, 7);
  Values y(kRows * kWidth), mean(kRows), reciprocal(kRows);
  const training::LayerNormSaved saved{mean, reciprocal};
  training::layer_norm_forward(x, weight, bias, y, saved);
  training::layer_norm_backward(x, weight, saved, dy, dx);
  training::layer_norm_backward_weights(x, saved, dy, weight_gradient, bias_gradient);
  Values expected = y;
  for (const Values& part : {dx, weight_gradient, bias_gradient}) {
    expected.insert(expected.end(), part.begin(), part.end());
  }
  expect_near(layer_norm_on_device(kBlocks), expected, 1e-5f);
}

TEST(DeviceLayers, BlocksDoNotChangeBits) { EXPECT_EQ(layer_norm_on_device(1), layer_norm_on_device(4)); }

TEST(DeviceLayers, GeluIsTheCpus) {
  Values x = random_values(501, 8, 4.0f);
  x.insert(x.end(), {0.0f, -100.0f, 100.0f});
  const Values dy = random_values(x.size(), 9);
  for (const training::Gelu kind : {training::Gelu::Exact, training::Gelu::Tanh}) {
    Values y(x.size()), dx(x.size());
    training::gelu_forward(kind, x, y);
    training::gelu_backward(kind, x, dy, dx);
    const OnDevice x_there(x), y_there(y), gradient(dy);
    GeluRun run{x_there.data(), nullptr, y_there.data(), x.size(), 0, kind == training::Gelu::Exact};
    launch(gelu_kernel(), run);
    expect_near(y_there.read(), y, 1e-5f);
    run.y_gradient = gradient.data();
    run.y = gradient.data();
    launch(gelu_kernel(), run);
    expect_near(gradient.read(), dx, 1e-5f);
  }
}

TEST(DeviceLayers, CrossEntropyAndItsGradient) {
  constexpr std::size_t kUsed = 30;
  constexpr float kScale = 0.25f;
  const Values logits = random_values(kRows * kWidth, 10, 5.0f);
  std::vector<std::int32_t> targets(kRows);
  Values losses(kRows), gradients(logits.size());
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::size_t target = (11 * row) % kUsed;
    targets[row] = static_cast<std::int32_t>(target);
    double sum = 0;
    for (std::size_t i = 0; i < kUsed; ++i) sum += std::exp(static_cast<double>(logits[row * kWidth + i]));
    losses[row] = static_cast<float>(std::log(sum) - static_cast<double>(logits[row * kWidth + target]));
    for (std::size_t i = 0; i < kUsed; ++i) {
      const double share = std::exp(static_cast<double>(logits[row * kWidth + i])) / sum;
      gradients[row * kWidth + i] = kScale * static_cast<float>(share - (i == target ? 1.0 : 0.0));
    }
  }
  const OnDevice logits_there(logits), losses_there{Values(kRows)};
  const OnDevice targets_there(targets);
  launch(cross_entropy_kernel(), CrossEntropyRun{logits_there.data(), targets_there.data(), losses_there.data(), kRows,
                                                 kWidth, kUsed, kScale, 0});
  expect_near(losses_there.read(), losses, 1e-5f);
  expect_near(logits_there.read(), gradients, 1e-6f);
}

TEST(DeviceLayers, AdamWIsTheOptimizersBitForBit) {
  constexpr std::size_t kCount = 203;
  constexpr float kRate = 1e-2f;
  training::Parameter parameter;
  parameter.decays = true;
  Values value = random_values(kCount, 11);
  Values gradient = random_values(kCount, 12);
  const training::AdamWOptions options;
  training::MemoryAccounting memory;
  const std::vector<training::Piece> pieces{{&parameter, 0, value, gradient}};
  const auto optimizer = training::make_adamw(pieces, options, memory);
  const OnDevice value_there(value), first{Values(kCount)}, second{Values(kCount)};
  for (int step = 1; step <= 3; ++step) {
    gradient = random_values(kCount, 12 + static_cast<unsigned>(step));
    const training::Piece piece{&parameter, 0, value, gradient};
    optimizer->step({&piece, 1}, kRate, 0.5f);
    const OnDevice gradient_there(gradient);
    AdamWRun run{};
    const double beta1 = options.beta1, beta2 = options.beta2;
    run.factors.gradient = 0.5f;
    run.factors.beta1 = options.beta1;
    run.factors.one_less_beta1 = static_cast<float>(1 - beta1);
    run.factors.beta2 = options.beta2;
    run.factors.one_less_beta2 = static_cast<float>(1 - beta2);
    run.factors.epsilon = options.epsilon;
    run.factors.decay = static_cast<float>(1 - kRate * static_cast<double>(options.weight_decay));
    run.factors.second_correction_root = static_cast<float>(std::sqrt(1 - std::pow(beta2, step)));
    run.factors.step_size = static_cast<float>(kRate / (1 - std::pow(beta1, step)));
    run.rows = {value_there.data(), gradient_there.data(), first.data(), second.data(), kCount};
    launch(adamw_kernel(), run);
  }
  EXPECT_EQ(value_there.read(), value);
}

}  // namespace
}  // namespace wreath
