// This file declares the layers of a transformer as functions on rows of float32: layer norm, bias, GELU, embedding and
// dropout. Shapes are [rows][width], row-major, and nothing overlaps unless a comment says so. Sums over a row run in
// index order of fixed lanes, so a row's result does not depend on the rows beside it.
//
// All buffers of a call lie in host memory, or all lie in that of one Compute (training/compute/compute.hpp). A call on
// a Compute is put into its stream. There, sums over rows and within a row run in the order of a block's threads.
// Tokens always lie in host memory and may be freed at once.
#pragma once

#include <cstdint>
#include <span>

#include "training/compute/kernels/held_places.hpp"
#include "training/random/philox.hpp"

namespace wreath::training {

// ---- layer norm: y = (x - mean) / sqrt(variance + 1e-5) * weight + bias (Ba, Kiros, Hinton 2016) ----

// The values that the backward pass needs, one of each kind for a row. `bias` of layer_norm_forward may be empty.
struct LayerNormSaved {
  std::span<float> mean;
  std::span<float> reciprocal_deviation;
};
void layer_norm_forward(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
                        std::span<float> y, const LayerNormSaved& saved);
// Adds to x_gradient, since the residual beside the layer norm has its share there.
void layer_norm_backward(std::span<const float> x, std::span<const float> weight, const LayerNormSaved& saved,
                         std::span<const float> y_gradient, std::span<float> x_gradient);
// Adds to both weight_gradient and bias_gradient; bias_gradient may be empty.
void layer_norm_backward_weights(std::span<const float> x, const LayerNormSaved& saved,
                                 std::span<const float> y_gradient, std::span<float> weight_gradient,
                                 std::span<float> bias_gradient);

// ---- bias, added to each row; its gradient is the sum over rows, added ----
void bias_forward(std::span<float> y, std::span<const float> bias);
void bias_backward_weights(std::span<const float> y_gradient, std::span<float> bias_gradient);

// ---- GELU (Hendrycks, Gimpel 2016), exact by erf or by tanh as in GPT-2 ----
enum class Gelu : std::uint8_t { Exact, Tanh };
void gelu_forward(Gelu kind, std::span<const float> x, std::span<float> y);
// Computes x_gradient = y_gradient * gelu'(x). x_gradient may be y_gradient.
void gelu_backward(Gelu kind, std::span<const float> x, std::span<const float> y_gradient, std::span<float> x_gradient);

// ---- embedding: rows of a table; `first` is the table's first row, tokens outside of it give zeros ----
void embedding_forward(std::span<const std::int32_t> tokens, std::span<const float> table, std::int32_t first,
                       std::int64_t width, std::span<float> y);
// Adds to table_gradient, in token order.
void embedding_backward(std::span<const std::int32_t> tokens, std::span<const float> y_gradient, std::int32_t first,
                        std::int64_t width, std::span<float> table_gradient);

// ---- dropout (Srivastava et al. 2014) of rows of `width` ----
//
// Sets values[row][column] to 0 where stream.uniform(place * width + column) < share. It divides the others by
// 1 - share. `place` is place_of_row(places, row).
void dropout(std::span<float> values, std::int64_t width, const HeldPlaces& places, const RandomStream& stream,
             float share);

// Computes y[i] += x[i].
void add(std::span<float> y, std::span<const float> x);
// Computes y[i] *= factor.
void scale(std::span<float> y, float factor);

}  // namespace wreath::training
