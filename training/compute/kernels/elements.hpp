// This file has kernels that compute each element from its own inputs alone. They use the CPU's operations in the CPU's
// order, so all but GELU give the CPU's bits.
#pragma once

#include <bit>

#include "training/compute/kernels/adamw_factors.hpp"
#include "training/compute/kernels/block.hpp"
#include "training/compute/kernels/held_places.hpp"
#include "training/random/philox.hpp"
#include "wreath/narrow_floats.hpp"

namespace wreath::training {

struct FillRun {
  float* y;
  std::uint64_t count;
  float value;
  std::uint32_t blocks = 1;
};

// Computes y += x where there is x, then y *= factor.
struct AddRun {
  float* y;
  const float* x;  // may be null
  std::uint64_t count;
  float factor;
  std::uint32_t blocks = 1;
};

// Computes y[row][i] += bias[i].
struct BiasRun {
  float* y;
  const float* bias;
  std::uint64_t count;  // of y
  std::uint64_t width;
  std::uint32_t blocks = 1;
};

struct CopyRowsRun {
  const float* x;
  float* y;
  std::int64_t x_stride;
  std::int64_t y_stride;
  std::int64_t rows;
  std::int64_t width;
  std::uint32_t blocks = 1;
};

// Computes y = gelu(x) or, with y_gradient, y = y_gradient * gelu'(x). Here y may be y_gradient.
struct GeluRun {
  const float* x;
  const float* y_gradient;  // null: forward
  float* y;
  std::uint64_t count;
  // True computes by erf, false by tanh, as in GPT-2.
  bool exact;
  std::uint32_t blocks = 1;
};

// Rounds to a narrower format: y = the format's nearest value to scale * x, divided by scale.
struct RoundRun {
  const float* x;
  float* y;  // may be x
  std::uint64_t count;
  float scale;
  DataType format;
  std::uint32_t blocks = 1;
};

// Converts values to words of a 16-bit format or back.
struct ConvertRun {
  float* values;
  std::uint16_t* words;
  std::uint64_t count;
  DataType format;
  bool to_words;
  std::uint32_t blocks = 1;
};

struct AdamWRun {
  AdamWFactors factors;
  AdamWRows rows;
  std::uint32_t blocks = 1;
};

// Computes value -= rate * (factor * gradient).
struct SgdRun {
  float* value;
  const float* gradient;
  std::uint64_t count;
  float rate;
  float factor;
  std::uint32_t blocks = 1;
};

// Sets values[row][column] to 0 where stream.uniform(place of the row * width + column) < share. Multiplies the others
// by `factor`.
struct DropoutRun {
  float* values;
  std::uint64_t count;
  std::uint64_t width;
  HeldPlaces places;
  RandomStream stream;
  float share;
  float factor;
  std::uint32_t blocks = 1;
};

// ---- the kernels ----

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const FillRun& run) {
  for_elements(block, run.blocks, run.count, [&](std::uint64_t i) { run.y[i] = run.value; });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const AddRun& run) {
  for_elements(block, run.blocks, run.count, [&](std::uint64_t i) {
    const float sum = run.x == nullptr ? run.y[i] : run.y[i] + run.x[i];
    run.y[i] = sum * run.factor;
  });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const BiasRun& run) {
  for_elements(block, run.blocks, run.count, [&](std::uint64_t i) { run.y[i] += run.bias[i % run.width]; });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const CopyRowsRun& run) {
  const auto width = static_cast<std::uint64_t>(run.width);
  for_elements(block, run.blocks, static_cast<std::uint64_t>(run.rows) * width, [&](std::uint64_t i) {
    const auto row = static_cast<std::int64_t>(i / width);
    const auto column = static_cast<std::int64_t>(i % width);
    run.y[row * run.y_stride + column] = run.x[row * run.x_stride + column];
  });
}

// The share of x that GELU passes on, and the slope of this share.
struct GeluShare {
  float share;
  float slope;
};

WREATH_HOST_DEVICE inline GeluShare exact_gelu_share(float x) {
  constexpr float kRootOfHalf = 0.70710678f;
  constexpr float kPeak = 0.39894228f;  // of the normal distribution
  return {0.5f * std::erfc(-x * kRootOfHalf), kPeak * std::exp(-0.5f * x * x)};
}

// Computes (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), as a logistic function of 2 u. Infinities give 0 and
// 1.
WREATH_HOST_DEVICE inline GeluShare tanh_gelu_share(float x) {
  constexpr float kTwice = 1.59576912f;  // 2 sqrt(2 / pi)
  constexpr float kCubic = 0.044715f;
  const float square = x * x;
  const float share = 1.0f / (1.0f + std::exp(-x * kTwice * (1.0f + kCubic * square)));
  const float inner = kTwice * (1.0f + 3.0f * kCubic * square);
  return {share, share * (1.0f - share) * inner};
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const GeluRun& run) {
  for_elements(block, run.blocks, run.count, [&](std::uint64_t i) {
    const float x = run.x[i];
    const GeluShare of = run.exact ? exact_gelu_share(x) : tanh_gelu_share(x);
    run.y[i] = run.y_gradient == nullptr ? x * of.share : run.y_gradient[i] * (of.share + x * of.slope);
  });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const RoundRun& run) {
  const float back = 1 / run.scale;
  for_dtype(run.format, [&](auto element) {
    using T = decltype(element);
    if constexpr (NarrowFormat<T>::kExists) {
      for_elements(block, run.blocks, run.count,
                   [&](std::uint64_t i) { run.y[i] = wreath::widen(wreath::narrow<T>(run.x[i] * run.scale)) * back; });
    }
  });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const ConvertRun& run) {
  for_dtype(run.format, [&](auto element) {
    using T = decltype(element);
    if constexpr (NarrowFormat<T>::kExists && sizeof(T) == sizeof(std::uint16_t)) {
      for_elements(block, run.blocks, run.count, [&](std::uint64_t i) {
        if (run.to_words) {
          run.words[i] = wreath::narrow<T>(run.values[i]).bits;
        } else {
          run.values[i] = wreath::widen(T{run.words[i]});
        }
      });
    }
  });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const AdamWRun& run) {
  const AdamWFactors& f = run.factors;
  const AdamWRows& rows = run.rows;
  for_elements(block, run.blocks, rows.count, [&](std::uint64_t i) {
    const float gradient = rows.gradient[i] * f.gradient;
    const float first = rows.first[i] * f.beta1 + gradient * f.one_less_beta1;
    const float second = rows.second[i] * f.beta2 + gradient * gradient * f.one_less_beta2;
    rows.first[i] = first;
    rows.second[i] = second;
    const float denominator = std::sqrt(second) / f.second_correction_root + f.epsilon;
    rows.value[i] = rows.value[i] * f.decay - first / denominator * f.step_size;
  });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const SgdRun& run) {
  for_elements(block, run.blocks, run.count,
               [&](std::uint64_t i) { run.value[i] -= run.rate * (run.factor * run.gradient[i]); });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const DropoutRun& run) {
  for_elements(block, run.blocks, run.count, [&](std::uint64_t i) {
    const auto place = static_cast<std::uint64_t>(place_of_row(run.places, static_cast<std::int64_t>(i / run.width)));
    const float number = run.stream.uniform(place * run.width + i % run.width);
    run.values[i] = number < run.share ? 0.0f : run.values[i] * run.factor;
  });
}

}  // namespace wreath::training
