// The layers of a transformer as functions on rows of float32: layer norm, GELU, attention, embedding, cross-entropy.
// Shapes are [rows][width], row-major; nothing overlaps unless said; sums over a row run in index order of fixed
// lanes, so that a row's result does not depend on the rows beside it.
//
// All buffers of a call lie in host memory or all in that of one Compute (training/compute/compute.hpp), where the
// call is put into its stream; tokens lie in host memory and may go at once. There sums over rows and within a row run
// in another order, that of a block's threads.
#pragma once

#include <cstdint>
#include <span>

#include "training/compute/kernels/held_places.hpp"
#include "training/random/philox.hpp"

namespace wreath::training {

// ---- layer norm: y = (x - mean) / sqrt(variance + 1e-5) * weight + bias (Ba, Kiros, Hinton 2016) ----

// bias may be empty. mean and reciprocal_deviation, of a value a row, are kept for the backward pass.
struct LayerNormSaved {
  std::span<float> mean;
  std::span<float> reciprocal_deviation;
};
void layer_norm_forward(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
                        std::span<float> y, const LayerNormSaved& saved);
// x_gradient is added to: the residual beside the layer norm has its share there.
void layer_norm_backward(std::span<const float> x, std::span<const float> weight, const LayerNormSaved& saved,
                         std::span<const float> y_gradient, std::span<float> x_gradient);
// Both are added to; bias_gradient may be empty.
void layer_norm_backward_weights(std::span<const float> x, const LayerNormSaved& saved,
                                 std::span<const float> y_gradient, std::span<float> weight_gradient,
                                 std::span<float> bias_gradient);

// ---- bias, added to each row; its gradient is the sum over rows, added ----
void bias_forward(std::span<float> y, std::span<const float> bias);
void bias_backward_weights(std::span<const float> y_gradient, std::span<float> bias_gradient);

// ---- GELU (Hendrycks, Gimpel 2016), exact by erf or as GPT-2 has it by tanh ----
enum class Gelu : std::uint8_t { Exact, Tanh };
void gelu_forward(Gelu kind, std::span<const float> x, std::span<float> y);
// x_gradient = y_gradient * gelu'(x); may be y_gradient.
void gelu_backward(Gelu kind, std::span<const float> x, std::span<const float> y_gradient, std::span<float> x_gradient);

// ---- embedding: rows of a table; `first` is the table's first row, tokens outside of it give zeros ----
void embedding_forward(std::span<const std::int32_t> tokens, std::span<const float> table, std::int32_t first,
                       std::int64_t width, std::span<float> y);
// table_gradient is added to, in token order.
void embedding_backward(std::span<const std::int32_t> tokens, std::span<const float> y_gradient, std::int32_t first,
                        std::int64_t width, std::span<float> table_gradient);

// ---- dropout (Srivastava et al. 2014) of rows of `width`: values[row][column] becomes 0 where
// stream.uniform(place * width + column) < share, else it is divided by 1 - share; `place` is place_of_row(places, row)
// ----
void dropout(std::span<float> values, std::int64_t width, const HeldPlaces& places, const RandomStream& stream,
             float share);

// y[i] += x[i].
void add(std::span<float> y, std::span<const float> x);
// y[i] *= factor.
void scale(std::span<float> y, float factor);

}  // namespace wreath::training
