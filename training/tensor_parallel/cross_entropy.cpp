// The loss over a vocabulary divided over ranks, and its gradient.
#include <algorithm>
#include <cmath>
#include <limits>

#include "training/tensor_parallel/arguments.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training {

namespace {

// One row's logits that are held here, padding left out.
using Row = std::span<float>;

float highest_of(Row row) {
  float highest = -std::numeric_limits<float>::infinity();
  for (const float logit : row) highest = std::max(highest, logit);
  return highest;
}

// Logits become exp(logit - highest), whose sum it returns.
float exponentiate(Row row, float highest) {
  double sum = 0;
  for (float& logit : row) {
    logit = std::exp(logit - highest);
    sum += static_cast<double>(logit);
  }
  return static_cast<float>(sum);
}

}  // namespace

double VocabParallelEmbedding::cross_entropy(std::span<float> logits, std::span<const std::int32_t> targets,
                                             float gradient_scale) const {
  const auto width = static_cast<std::size_t>(rows_here_);
  expect_indices(table_->name, "the target", targets, vocabulary_);
  expect_size(table_->name, "an activation of logits", logits.size(),
              static_cast<std::int64_t>(targets.size()) * rows_here_);
  const auto used = static_cast<std::size_t>(std::clamp<std::int64_t>(vocabulary_ - first_, 0, rows_here_));
  const auto row_of = [&](std::size_t row) { return logits.subspan(row * width, used); };
  // The target's place in row_of(); `used` or more where another rank has it.
  const auto target_of = [&](std::size_t row) { return static_cast<std::size_t>(targets[row] - first_); };
  const auto values_of_rows = [&] {
    return Buffer<float>(region_->memory(), MemoryTag::Workspace, targets.size(), Contents::Undefined);
  };

  Group& group = region_->group();
  const Buffer<float> highest = values_of_rows();
  for (std::size_t row = 0; row < targets.size(); ++row) highest[row] = highest_of(row_of(row));
  group.all_reduce(highest.span(), ReduceOp::Max);

  const Buffer<float> sum = values_of_rows();
  const Buffer<float> of_target = values_of_rows();
  for (std::size_t row = 0; row < targets.size(); ++row) {
    of_target[row] = target_of(row) < used ? row_of(row)[target_of(row)] : 0.0f;
    sum[row] = exponentiate(row_of(row), highest[row]);
  }
  group.all_reduce(sum.span());
  group.all_reduce(of_target.span());

  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    loss += std::log(static_cast<double>(sum[row])) + static_cast<double>(highest[row]) -
            static_cast<double>(of_target[row]);
    const float factor = gradient_scale / sum[row];
    for (float& value : row_of(row)) value *= factor;
    if (target_of(row) < used) row_of(row)[target_of(row)] -= gradient_scale;
    std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(row * width + used), width - used, 0.0f);
  }
  return loss;
}

}  // namespace wreath::training
