// This file computes the layers, row by row.
#include "training/compute/layers.hpp"

#include <algorithm>

#include "training/compute/compute.hpp"
#include "training/compute/kernels/kernels.hpp"
#include "training/compute/row_kernels.hpp"
#include "training/compute/threads.hpp"

namespace wreath::training {

namespace {

const float* data_or_null(std::span<const float> values) { return values.empty() ? nullptr : values.data(); }

std::int64_t count_of(std::span<const float> values) { return static_cast<std::int64_t>(values.size()); }

// A part of this many elements pays for the waking of a thread.
constexpr std::int64_t kPartElements = 1 << 14;

// Calls body(row) for each row. Rows of `width` elements are divided among threads.
template <typename Body>
void for_rows(std::size_t rows, std::size_t width, const Body& body) {
  const std::int64_t grain = kPartElements / std::max<std::int64_t>(static_cast<std::int64_t>(width), 1) + 1;
  parallel_for(static_cast<std::int64_t>(rows), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) body(row);
  });
}

void add_column_sums(Compute& on, const ColumnSumsRun& run) { on.launch(run, run.width / kColumnsOfBlock + 1); }

}  // namespace

void layer_norm_forward(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
                        std::span<float> y, const LayerNormSaved& saved) {
  if (Compute* const on = compute_of(y)) {
    return on->launch(LayerNormRun{on->at(x), on->at(weight), on->at(bias), on->at(y), on->at(saved.mean),
                                   on->at(saved.reciprocal_deviation), saved.mean.size(), weight.size()},
                      saved.mean.size());
  }
  const std::size_t width = weight.size();
  for_rows(saved.mean.size(), width, [&](std::size_t row) {
    const Normalized of = layer_norm_row(x.data() + row * width, weight.data(), data_or_null(bias),
                                         y.data() + row * width, count_of(weight));
    saved.mean[row] = of.mean;
    saved.reciprocal_deviation[row] = of.reciprocal_deviation;
  });
}

void layer_norm_backward(std::span<const float> x, std::span<const float> weight, const LayerNormSaved& saved,
                         std::span<const float> y_gradient, std::span<float> x_gradient) {
  if (Compute* const on = compute_of(x_gradient)) {
    return on->launch(
        LayerNormBackwardRun{on->at(x), on->at(weight), on->at(saved.mean), on->at(saved.reciprocal_deviation),
                             on->at(y_gradient), on->at(x_gradient), saved.mean.size(), weight.size()},
        saved.mean.size());
  }
  const std::size_t width = weight.size();
  for_rows(saved.mean.size(), width, [&](std::size_t row) {
    layer_norm_row_backward(x.data() + row * width, weight.data(), {saved.mean[row], saved.reciprocal_deviation[row]},
                            y_gradient.data() + row * width, x_gradient.data() + row * width, count_of(weight));
  });
}

void layer_norm_backward_weights(std::span<const float> x, const LayerNormSaved& saved,
                                 std::span<const float> y_gradient, std::span<float> weight_gradient,
                                 std::span<float> bias_gradient) {
  if (Compute* const on = compute_of(weight_gradient)) {
    add_column_sums(*on, {on->at(y_gradient), on->at(x), on->at(saved.mean), on->at(saved.reciprocal_deviation),
                          on->at(weight_gradient), saved.mean.size(), weight_gradient.size()});
    if (!bias_gradient.empty()) bias_backward_weights(y_gradient, bias_gradient);
    return;
  }
  const std::size_t width = weight_gradient.size();
  for (std::size_t row = 0; row < saved.mean.size(); ++row) {
    layer_norm_row_backward_weights(x.data() + row * width, {saved.mean[row], saved.reciprocal_deviation[row]},
                                    y_gradient.data() + row * width, weight_gradient.data(), count_of(weight_gradient));
  }
  if (!bias_gradient.empty()) bias_backward_weights(y_gradient, bias_gradient);
}

void bias_forward(std::span<float> y, std::span<const float> bias) {
  if (Compute* const on = compute_of(y)) {
    return on->launch_elements(BiasRun{on->at(y), on->at(bias), y.size(), bias.size()}, y.size());
  }
  for (std::size_t row = 0; row < y.size(); row += bias.size()) add(y.subspan(row, bias.size()), bias);
}

void bias_backward_weights(std::span<const float> y_gradient, std::span<float> bias_gradient) {
  if (Compute* const on = compute_of(bias_gradient)) {
    return add_column_sums(*on, {on->at(y_gradient), nullptr, nullptr, nullptr, on->at(bias_gradient),
                                 y_gradient.size() / bias_gradient.size(), bias_gradient.size()});
  }
  for (std::size_t row = 0; row < y_gradient.size(); row += bias_gradient.size()) {
    add(bias_gradient, y_gradient.subspan(row, bias_gradient.size()));
  }
}

void gelu_forward(Gelu kind, std::span<const float> x, std::span<float> y) {
  if (Compute* const on = compute_of(y)) {
    return on->launch_elements(GeluRun{on->at(x), nullptr, on->at(y), y.size(), kind == Gelu::Exact}, y.size());
  }
  parallel_for(count_of(x), kPartElements, [&](std::int64_t begin, std::int64_t end) {
    gelu_row(kind, x.data() + begin, y.data() + begin, end - begin);
  });
}

void gelu_backward(Gelu kind, std::span<const float> x, std::span<const float> y_gradient,
                   std::span<float> x_gradient) {
  if (Compute* const on = compute_of(x_gradient)) {
    return on->launch_elements(
        GeluRun{on->at(x), on->at(y_gradient), on->at(x_gradient), x.size(), kind == Gelu::Exact}, x.size());
  }
  parallel_for(count_of(x), kPartElements, [&](std::int64_t begin, std::int64_t end) {
    gelu_row_backward(kind, x.data() + begin, y_gradient.data() + begin, x_gradient.data() + begin, end - begin);
  });
}

void embedding_forward(std::span<const std::int32_t> tokens, std::span<const float> table, std::int32_t first,
                       std::int64_t width, std::span<float> y) {
  if (Compute* const on = compute_of(y)) {
    const OnCompute<std::int32_t> there(*on, tokens);
    return on->launch_elements(EmbeddingRun{there.at(), on->at(table), on->at(y), tokens.size(),
                                            count_of(table) / width, first, static_cast<std::uint64_t>(width)},
                               y.size());
  }
  const std::int64_t rows = static_cast<std::int64_t>(table.size()) / width;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t row = tokens[i] - first;
    float* out = y.data() + static_cast<std::int64_t>(i) * width;
    if (row < 0 || row >= rows) {
      std::fill_n(out, width, 0.0f);
    } else {
      std::copy_n(table.data() + row * width, width, out);
    }
  }
}

void embedding_backward(std::span<const std::int32_t> tokens, std::span<const float> y_gradient, std::int32_t first,
                        std::int64_t width, std::span<float> table_gradient) {
  if (Compute* const on = compute_of(table_gradient)) {
    const OnCompute<std::int32_t> there(*on, tokens);
    const std::int64_t table_rows = count_of(table_gradient) / width;
    return on->launch(EmbeddingBackwardRun{there.at(), on->at(y_gradient), on->at(table_gradient), tokens.size(),
                                           table_rows, first, static_cast<std::uint64_t>(width)},
                      static_cast<std::uint64_t>(table_rows));
  }
  const std::int64_t rows = static_cast<std::int64_t>(table_gradient.size()) / width;
  const auto row_size = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t row = tokens[i] - first;
    if (row < 0 || row >= rows) continue;
    add(table_gradient.subspan(static_cast<std::size_t>(row * width), row_size),
        y_gradient.subspan(i * row_size, row_size));
  }
}

void dropout(std::span<float> values, std::int64_t width, const HeldPlaces& places, const RandomStream& stream,
             float share) {
  const float factor = 1.0f / (1.0f - share);
  if (Compute* const on = compute_of(values)) {
    return on->launch_elements(
        DropoutRun{on->at(values), values.size(), static_cast<std::uint64_t>(width), places, stream, share, factor},
        values.size());
  }
  for (std::size_t at = 0; at < values.size(); at += static_cast<std::size_t>(width)) {
    const std::int64_t place = place_of_row(places, static_cast<std::int64_t>(at) / width);
    for (std::int64_t column = 0; column < width; ++column) {
      float& value = values[at + static_cast<std::size_t>(column)];
      value = stream.uniform(static_cast<std::uint64_t>(place * width + column)) < share ? 0.0f : value * factor;
    }
  }
}

void add(std::span<float> y, std::span<const float> x) {
  if (Compute* const on = compute_of(y)) {
    return on->launch_elements(AddRun{on->at(y), on->at(x), y.size(), 1.0f}, y.size());
  }
  add_row(y.data(), x.data(), count_of(y));
}

void scale(std::span<float> y, float factor) {
  if (Compute* const on = compute_of(y)) {
    return on->launch_elements(AddRun{on->at(y), nullptr, y.size(), factor}, y.size());
  }
  scale_row(y.data(), factor, count_of(y));
}

}  // namespace wreath::training
