// This file declares loops over the values of a row, by the instruction set of this machine; the layers and attention
// use them. A sum has 16 partial sums on every instruction set, and value i goes to number i % 16. A result so depends
// only on the row's values and on whether the machine has fused multiply-add. Rows may lie anywhere. A target may be
// one of its sources only where its comment says so.
#pragma once

#include <cstdint>

#include "training/compute/layers.hpp"

namespace wreath::training {

// Computes y[i] += x[i] in add_row(), y[i] *= factor in scale_row().
void add_row(float* y, const float* x, std::int64_t count);
void scale_row(float* y, float factor, std::int64_t count);
float dot_rows(const float* a, const float* b, std::int64_t count);

// ---- layer norm ----
struct Normalized {
  float mean;
  float reciprocal_deviation;
};
// Normalizes a row; `bias` may be null.
Normalized layer_norm_row(const float* x, const float* weight, const float* bias, float* y, std::int64_t width);
// Adds to x_gradient.
void layer_norm_row_backward(const float* x, const float* weight, const Normalized& of, const float* y_gradient,
                             float* x_gradient, std::int64_t width);
// Computes weight_gradient[i] += y_gradient[i] * normalized x[i].
void layer_norm_row_backward_weights(const float* x, const Normalized& of, const float* y_gradient,
                                     float* weight_gradient, std::int64_t width);

// ---- GELU; the target may be either source ----
void gelu_row(Gelu kind, const float* x, float* y, std::int64_t count);
void gelu_row_backward(Gelu kind, const float* x, const float* y_gradient, float* x_gradient, std::int64_t count);

// ---- attention: a row of `width` scores of which the first `seen` count ----
// Returns the highest of factor * score and `before`.
float highest_score(const float* scores, std::int64_t seen, float factor, float before);
// Replaces scores by exp(factor * score - highest), and those not seen by 0. Returns the sum.
float exponentials(float* scores, std::int64_t seen, std::int64_t width, float factor, float highest);
// Replaces slopes (the gradients of probabilities) by the gradients of scores: probability * (slope - delta) * factor.
void softmax_row_backward(const float* probabilities, float* slopes, std::int64_t width, float delta, float factor);

}  // namespace wreath::training
