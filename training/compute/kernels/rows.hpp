// This file has kernels that work on rows: layer norm, sums over rows, the loss and embeddings. Matrices are
// [rows][width], row-major. A block takes rows block(), block() + blocks, and so on.
#pragma once

#include <bit>
#include <limits>

#include "training/compute/kernels/block.hpp"

namespace wreath::training {

// Computes y = (x - mean) * reciprocal_deviation * weight + bias. Writes y, mean and reciprocal_deviation.
struct LayerNormRun {
  const float* x;
  const float* weight;
  const float* bias;  // may be null
  float* y;
  float* mean;                  // [rows]
  float* reciprocal_deviation;  // [rows]
  std::uint64_t rows;
  std::uint64_t width;  // at least 1
  std::uint32_t blocks = 1;
};

// Adds to x_gradient.
struct LayerNormBackwardRun {
  const float* x;
  const float* weight;
  const float* mean;
  const float* reciprocal_deviation;
  const float* y_gradient;
  float* x_gradient;
  std::uint64_t rows;
  std::uint64_t width;
  std::uint32_t blocks = 1;
};

// Adds to sum[column] the sum over rows of y_gradient, times normalized x where there is x.
struct ColumnSumsRun {
  const float* y_gradient;
  const float* x;     // null: a bias's gradient
  const float* mean;  // with x
  const float* reciprocal_deviation;
  float* sum;
  std::uint64_t rows;
  std::uint64_t width;
  std::uint32_t blocks = 1;
};
inline constexpr unsigned kColumnsOfBlock = 32;

// Finds the values of a row that ranks share before they put the loss together. The first `used` logits of a row are
// words of the vocabulary; the others are padding. Without `exponentials` it writes the highest logit of each row. With
// `exponentials` it replaces logits by exp(logit - highest) and writes their sums. It then also writes the target's
// original logit, or 0 where the target is another rank's.
struct CrossEntropyPartsRun {
  float* logits;
  const std::int32_t* targets;  // [rows], of the whole vocabulary
  float* highest;               // [rows]
  float* sum;                   // [rows]
  float* of_target;             // [rows]
  std::uint64_t rows;
  std::uint64_t width;
  std::uint64_t used;
  std::int64_t first;  // the first word here
  bool exponentials;
  std::uint32_t blocks = 1;
};

// Writes losses and gradients from the exponentials that CrossEntropyPartsRun left, after ranks combined their parts.
struct CrossEntropyRun {
  float* logits;
  const std::int32_t* targets;
  const float* highest;
  const float* sum;
  const float* of_target;
  double* losses;  // [rows]
  std::uint64_t rows;
  std::uint64_t width;
  std::uint64_t used;
  std::int64_t first;
  float gradient_scale;
  std::uint32_t blocks = 1;
};

// Computes y[i] = table[tokens[i] - first], or zeros where the table has no such row.
struct EmbeddingRun {
  const std::int32_t* tokens;
  const float* table;
  float* y;
  std::uint64_t tokens_count;
  std::int64_t table_rows;
  std::int64_t first;
  std::uint64_t width;
  std::uint32_t blocks = 1;
};

// Adds to table_gradient[row] the y_gradient of the row's tokens, in their order.
struct EmbeddingBackwardRun {
  const std::int32_t* tokens;
  const float* y_gradient;
  float* table_gradient;
  std::uint64_t tokens_count;
  std::int64_t table_rows;
  std::int64_t first;
  std::uint64_t width;
  std::uint32_t blocks = 1;
};

// Computes, for attention, delta[row] = the sum of a * b over each `width` values. A row here is one head.
struct DotRowsRun {
  const float* a;
  const float* b;
  float* result;
  std::uint64_t rows;
  std::uint64_t width;
  std::uint32_t blocks = 1;
};

// Finds one number for each block's share of a gradient. Without `scale` it is the bits of the highest magnitude; with
// it, the sum of squares as integers (docs/decisions/0011). A block takes at most kMostOfBlock elements, so no sum
// overflows.
struct GradientSumRun {
  const float* values;
  std::uint64_t count;
  std::int64_t* results;  // [blocks]
  double scale;           // 0: the highest magnitude
  std::uint32_t blocks = 1;
};

// ---- the kernels ----

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const LayerNormRun& run) {
  constexpr float kEpsilon = 1e-5f;
  const auto width = static_cast<float>(run.width);
  for (std::uint64_t row = block.block(); row < run.rows; row += run.blocks) {
    const float* x = run.x + row * run.width;
    float* y = run.y + row * run.width;
    const float mean = sum_in_block<float>(block, run.width, [&](std::uint64_t i) { return x[i]; }) / width;
    const auto squared_distance = [&](std::uint64_t i) { return (x[i] - mean) * (x[i] - mean); };
    const float variance = sum_in_block<float>(block, run.width, squared_distance) / width;
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
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const LayerNormBackwardRun& run) {
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
    const float common = sum_in_block<float>(block, run.width, scaled) / width;
    const float projected = sum_in_block<float>(block, run.width, projection) / width;
    for (std::uint64_t i = block.thread(); i < run.width; i += block.threads()) {
      dx[i] += (scaled(i) - (common + normalized(i) * projected)) * reciprocal;
    }
  }
}

// Threads form rows of neighbouring columns. Each thread adds every lanes-th row in order. The first thread of a column
// begins with the value that is there, and adds the other threads' sums in their order.
template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const ColumnSumsRun& run) {
  const unsigned columns = block.threads() < kColumnsOfBlock ? block.threads() : kColumnsOfBlock;
  const unsigned lanes = block.threads() / columns;
  const unsigned lane = block.thread() / columns;
  float* partial = reinterpret_cast<float*>(block.shared_memory());
  for (std::uint64_t begin = std::uint64_t{block.block()} * columns; begin < run.width;
       begin += std::uint64_t{run.blocks} * columns) {
    const std::uint64_t column = begin + block.thread() % columns;
    const bool adds = lane < lanes && column < run.width;
    float sum = adds && lane == 0 ? run.sum[column] : 0.0f;
    for (std::uint64_t row = lane; adds && row < run.rows; row += lanes) {
      const std::uint64_t i = row * run.width + column;
      const float dy = run.y_gradient[i];
      if (run.x == nullptr) {
        sum += dy;
      } else {
        sum = fused(dy, (run.x[i] - run.mean[row]) * run.reciprocal_deviation[row], sum);
      }
    }
    partial[block.thread()] = sum;
    block.barrier();
    for (unsigned other = 1; other < lanes && adds && lane == 0; ++other) {
      sum += partial[other * columns + block.thread()];
    }
    if (adds && lane == 0) run.sum[column] = sum;
    // The next sums are written only after all threads have read these.
    block.barrier();
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const CrossEntropyPartsRun& run) {
  for (std::uint64_t row = block.block(); row < run.rows; row += run.blocks) {
    float* logits = run.logits + row * run.width;
    if (!run.exponentials) {
      float highest = -std::numeric_limits<float>::infinity();
      for (std::uint64_t i = block.thread(); i < run.used; i += block.threads()) {
        highest = std::fmax(highest, logits[i]);
      }
      highest = combine_in_block<float>(block, highest, [](float a, float b) { return std::fmax(a, b); });
      if (block.thread() == 0) run.highest[row] = highest;
      continue;
    }
    const auto target = static_cast<std::uint64_t>(run.targets[row] - run.first);
    if (block.thread() == 0) run.of_target[row] = target < run.used ? logits[target] : 0.0f;
    // All threads wait until the target's logit was read.
    block.barrier();
    const float highest = run.highest[row];
    const double sum = sum_in_block<double>(block, run.used, [&](std::uint64_t i) {
      logits[i] = std::exp(logits[i] - highest);
      return static_cast<double>(logits[i]);
    });
    if (block.thread() == 0) run.sum[row] = static_cast<float>(sum);
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const CrossEntropyRun& run) {
  for (std::uint64_t row = block.block(); row < run.rows; row += run.blocks) {
    float* logits = run.logits + row * run.width;
    const auto target = static_cast<std::uint64_t>(run.targets[row] - run.first);
    const float factor = run.gradient_scale / run.sum[row];
    for (std::uint64_t i = block.thread(); i < run.width; i += block.threads()) {
      const float gradient = i < run.used ? logits[i] * factor : 0.0f;
      logits[i] = i == target && i < run.used ? gradient - run.gradient_scale : gradient;
    }
    if (block.thread() == 0) {
      run.losses[row] = std::log(static_cast<double>(run.sum[row])) + static_cast<double>(run.highest[row]) -
                        static_cast<double>(run.of_target[row]);
    }
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const EmbeddingRun& run) {
  for_elements(block, run.blocks, run.tokens_count * run.width, [&](std::uint64_t i) {
    const std::int64_t row = run.tokens[i / run.width] - run.first;
    const bool here = row >= 0 && row < run.table_rows;
    run.y[i] = here ? run.table[static_cast<std::uint64_t>(row) * run.width + i % run.width] : 0.0f;
  });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const EmbeddingBackwardRun& run) {
  for (std::int64_t row = block.block(); row < run.table_rows; row += run.blocks) {
    float* gradient = run.table_gradient + static_cast<std::uint64_t>(row) * run.width;
    for (std::uint64_t token = 0; token < run.tokens_count; ++token) {
      if (run.tokens[token] - run.first != row) continue;
      const float* dy = run.y_gradient + token * run.width;
      for (std::uint64_t i = block.thread(); i < run.width; i += block.threads()) gradient[i] += dy[i];
    }
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const DotRowsRun& run) {
  for_elements(block, run.blocks, run.rows, [&](std::uint64_t row) {
    float sum = 0;
    for (std::uint64_t i = 0; i < run.width; ++i) sum += run.a[row * run.width + i] * run.b[row * run.width + i];
    run.result[row] = sum;
  });
}

inline constexpr std::uint64_t kMostOfBlock = std::uint64_t{1} << 23;

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const GradientSumRun& run) {
  std::int64_t result = 0;
  for_elements(block, run.blocks, run.count, [&](std::uint64_t i) {
    if (run.scale == 0) {
      const std::int64_t magnitude = std::bit_cast<std::uint32_t>(run.values[i]) & 0x7fffffffu;
      result = magnitude > result ? magnitude : result;
    } else {
      // Rounds to the nearest integer, below 2^40.
      const double scaled = static_cast<double>(run.values[i]) * run.scale;
      const double square = scaled * scaled + 0x1.8p52;
      result += static_cast<std::int64_t>(square - 0x1.8p52);
    }
  });
  const bool adds = run.scale != 0;
  result = combine_in_block<std::int64_t>(
      block, result, [adds](std::int64_t a, std::int64_t b) { return adds ? a + b : (a > b ? a : b); });
  if (block.thread() == 0) run.results[block.block()] = result;
}

}  // namespace wreath::training
