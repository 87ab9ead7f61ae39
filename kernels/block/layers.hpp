// Layers of a transformer in float32 for blocks of threads: layer norm, GELU, cross-entropy, AdamW. Matrices are
// [rows][width], row-major. A block takes rows (or elements) block(), block() + blocks, ... Sums are trees over the
// threads of a block: the same bits on every run with as many threads, whatever the number of blocks. One source for a
// GPU and for the host; `Block` as in run_lanes.hpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/arithmetic.hpp"
#include "training/optimizer/adamw_factors.hpp"

namespace wreath {

// y = (x - mean) * reciprocal_deviation * weight + bias. The forward pass writes y, mean and reciprocal_deviation, the
// backward passes read the last two and add to the gradients. All pointers are reachable from the device.
struct LayerNormRun {
  const float* x;
  const float* weight;
  const float* bias;  // may be null
  float* y;
  float* mean;                  // [rows]
  float* reciprocal_deviation;  // [rows]
  const float* y_gradient;
  float* x_gradient;
  float* weight_gradient;
  float* bias_gradient;  // may be null
  std::uint64_t rows;
  std::uint64_t width;  // at least 1
  std::uint32_t blocks;
};

// y = gelu(x), or with y_gradient y = y_gradient * gelu'(x), where y may be y_gradient.
struct GeluRun {
  const float* x;
  const float* y_gradient;  // null: forward
  float* y;
  std::uint64_t elements;
  std::uint32_t blocks;
  bool exact;  // by erf; else as GPT-2 has it, by tanh
};

// loss[row] = -log(softmax(logits)[target]) over the first `used` logits of a row, which become
// gradient_scale * (softmax - 1 at the target); those after them become 0. targets are below `used`.
struct CrossEntropyRun {
  float* logits;
  const std::int32_t* targets;  // [rows]
  float* loss;                  // [rows]
  std::uint64_t rows;
  std::uint64_t width;
  std::uint64_t used;  // 1 to width
  float gradient_scale;
  std::uint32_t blocks;
};

struct AdamWRun {
  training::AdamWFactors factors;
  training::AdamWRows rows;
  std::uint32_t blocks;
};

// What the threads of a block share.
inline constexpr std::size_t kMostLayerThreads = 512;
struct LayerShared {
  float partial[kMostLayerThreads];
};

// combine() of the values of all threads, for all of them, who all call it.
template <typename Block, typename Combine>
WREATH_HOST_DEVICE inline float combine_in_block(Block& block, float value, const Combine& combine) {
  float* partial = reinterpret_cast<LayerShared*>(block.shared_memory())->partial;
  const unsigned thread = block.thread();
  partial[thread] = value;
  block.barrier();
  for (unsigned width = block.threads(); width > 1;) {
    const unsigned half = (width + 1) / 2;
    if (thread < width / 2) partial[thread] = combine(partial[thread], partial[thread + half]);
    block.barrier();
    width = half;
  }
  const float result = partial[0];
  block.barrier();  // before somebody's next value
  return result;
}

// The sum of term(i) for i < count, for all threads.
template <typename Block, typename Term>
WREATH_HOST_DEVICE inline float sum_in_block(Block& block, std::uint64_t count, const Term& term) {
  float sum = 0;
  for (std::uint64_t i = block.thread(); i < count; i += block.threads()) sum += term(i);
  return combine_in_block(block, sum, [](float a, float b) { return a + b; });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_layer_norm(Block& block, const LayerNormRun& run) {
  constexpr float kEpsilon = 1e-5f;
  const auto width = static_cast<float>(run.width);
  for (std::uint64_t row = block.block(); row < run.rows; row += run.blocks) {
    const float* x = run.x + row * run.width;
    float* y = run.y + row * run.width;
    const float mean = sum_in_block(block, run.width, [&](std::uint64_t i) { return x[i]; }) / width;
    const auto squared_distance = [&](std::uint64_t i) { return (x[i] - mean) * (x[i] - mean); };
    const float variance = sum_in_block(block, run.width, squared_distance) / width;
    const float reciprocal = 1.0f / std::sqrt(variance + kEpsilon);
    for (std::uint64_t i = block.thread(); i < run.width; i += block.threads()) {
      const float scaled = (x[i] - mean) * reciprocal * run.weight[i];
      y[i] = run.bias == nullptr ? scaled : scaled + run.bias[i];
    }
    if (block.thread() == 0) {
      run.mean[row] = mean;
      run.reciprocal_deviation[row] = reciprocal;
    }
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_layer_norm_backward(Block& block, const LayerNormRun& run) {
  const auto width = static_cast<float>(run.width);
  for (std::uint64_t row = block.block(); row < run.rows; row += run.blocks) {
    const float* x = run.x + row * run.width;
    const float* dy = run.y_gradient + row * run.width;
    float* dx = run.x_gradient + row * run.width;
    const float mean = run.mean[row];
    const float reciprocal = run.reciprocal_deviation[row];
    const auto scaled = [&](std::uint64_t i) { return dy[i] * run.weight[i]; };
    const auto normalized = [&](std::uint64_t i) { return (x[i] - mean) * reciprocal; };
    const auto projection = [&](std::uint64_t i) { return scaled(i) * normalized(i); };
    const float common = sum_in_block(block, run.width, scaled) / width;
    const float projected = sum_in_block(block, run.width, projection) / width;
    for (std::uint64_t i = block.thread(); i < run.width; i += block.threads()) {
      dx[i] += (scaled(i) - (common + normalized(i) * projected)) * reciprocal;
    }
  }
}

// A thread takes a column and adds its rows in order; neighbours load neighbours.
template <typename Block>
WREATH_HOST_DEVICE inline void run_layer_norm_backward_weights(Block& block, const LayerNormRun& run) {
  const std::uint64_t stride = std::uint64_t{run.blocks} * block.threads();
  for (std::uint64_t column = std::uint64_t{block.block()} * block.threads() + block.thread(); column < run.width;
       column += stride) {
    float of_weight = run.weight_gradient[column];
    float of_bias = 0;
    for (std::uint64_t row = 0; row < run.rows; ++row) {
      const float dy = run.y_gradient[row * run.width + column];
      of_weight += dy * ((run.x[row * run.width + column] - run.mean[row]) * run.reciprocal_deviation[row]);
      of_bias += dy;
    }
    run.weight_gradient[column] = of_weight;
    if (run.bias_gradient != nullptr) run.bias_gradient[column] += of_bias;
  }
}

// The share of x that GELU lets through, and its slope.
struct GeluShare {
  float share;
  float slope;
};

WREATH_HOST_DEVICE inline GeluShare exact_gelu_share(float x) {
  constexpr float kRootOfHalf = 0.70710678f;
  constexpr float kPeak = 0.39894228f;  // of the normal distribution
  return {0.5f * std::erfc(-x * kRootOfHalf), kPeak * std::exp(-0.5f * x * x)};
}

// (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), as a logistic function of 2 u: infinities give 0 and 1.
WREATH_HOST_DEVICE inline GeluShare tanh_gelu_share(float x) {
  constexpr float kTwice = 1.59576912f;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715f;
  const float square = x * x;
  const float share = 1.0f / (1.0f + std::exp(-x * kTwice * (1.0f + kCubic * square)));
  const float inner = kTwice * (1.0f + 3.0f * kCubic * square);
  return {share, share * (1.0f - share) * inner};
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_gelu(Block& block, const GeluRun& run) {
  const std::uint64_t stride = std::uint64_t{run.blocks} * block.threads();
  for (std::uint64_t i = std::uint64_t{block.block()} * block.threads() + block.thread(); i < run.elements;
       i += stride) {
    const float x = run.x[i];
    const GeluShare of = run.exact ? exact_gelu_share(x) : tanh_gelu_share(x);
    run.y[i] = run.y_gradient == nullptr ? x * of.share : run.y_gradient[i] * (of.share + x * of.slope);
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_cross_entropy(Block& block, const CrossEntropyRun& run) {
  for (std::uint64_t row = block.block(); row < run.rows; row += run.blocks) {
    float* logits = run.logits + row * run.width;
    const auto target = static_cast<std::uint64_t>(run.targets[row]);
    float highest = -std::numeric_limits<float>::infinity();
    for (std::uint64_t i = block.thread(); i < run.used; i += block.threads()) highest = std::fmax(highest, logits[i]);
    highest = combine_in_block(block, highest, [](float a, float b) { return std::fmax(a, b); });
    const auto exponential = [&](std::uint64_t i) { return std::exp(logits[i] - highest); };
    const float sum = sum_in_block(block, run.used, exponential);
    if (block.thread() == 0) run.loss[row] = std::log(sum) + highest - logits[target];
    block.barrier();  // the target's logit was read
    const float factor = run.gradient_scale / sum;
    for (std::uint64_t i = block.thread(); i < run.width; i += block.threads()) {
      const float gradient = i < run.used ? exponential(i) * factor : 0.0f;
      logits[i] = i == target ? gradient - run.gradient_scale : gradient;
    }
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_adamw(Block& block, const AdamWRun& run) {
  const training::AdamWFactors& f = run.factors;
  const training::AdamWRows& rows = run.rows;
  const std::uint64_t stride = std::uint64_t{run.blocks} * block.threads();
  for (std::uint64_t i = std::uint64_t{block.block()} * block.threads() + block.thread(); i < rows.count; i += stride) {
    const float gradient = rows.gradient[i] * f.gradient;
    const float first = rows.first[i] * f.beta1 + gradient * f.one_less_beta1;
    const float second = rows.second[i] * f.beta2 + gradient * gradient * f.one_less_beta2;
    rows.first[i] = first;
    rows.second[i] = second;
    const float denominator = std::sqrt(second) / f.second_correction_root + f.epsilon;
    rows.value[i] = rows.value[i] * f.decay - first / denominator * f.step_size;
  }
}

}  // namespace wreath
