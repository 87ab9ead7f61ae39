// This file computes the loss of rows, on the calling thread or on a device.
#include "training/compute/cross_entropy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "training/compute/kernels/kernels.hpp"

namespace wreath::training {

namespace {

float highest_of(std::span<const float> row) {
  float highest = -std::numeric_limits<float>::infinity();
  for (const float logit : row) highest = std::max(highest, logit);
  return highest;
}

// Replaces the logits of a row by exp(logit - highest) and returns their sum.
float exponentiate_row(std::span<float> row, float highest) {
  double sum = 0;
  for (float& logit : row) {
    logit = std::exp(logit - highest);
    sum += static_cast<double>(logit);
  }
  return static_cast<float>(sum);
}

}  // namespace

CrossEntropy::CrossEntropy(const LogitRows& rows) : rows_(rows), on_(compute_of(rows.logits)) {
  if (on_ != nullptr) targets_.emplace(*on_, rows.targets);
}

void CrossEntropy::find_highest() const {
  if (on_ != nullptr) return launch_parts(false);
  for (std::size_t i = 0; i < rows_.targets.size(); ++i) rows_.highest[i] = highest_of(row(i));
}

void CrossEntropy::exponentiate() const {
  if (on_ != nullptr) return launch_parts(true);
  for (std::size_t i = 0; i < rows_.targets.size(); ++i) {
    rows_.of_target[i] = target(i) < rows_.used ? row(i)[target(i)] : 0.0f;
    rows_.sum[i] = exponentiate_row(row(i), rows_.highest[i]);
  }
}

void CrossEntropy::finish(std::span<double> losses) const {
  const std::size_t count = rows_.targets.size();
  if (on_ != nullptr) {
    return on_->launch(CrossEntropyRun{on_->at(rows_.logits), targets_->at(), on_->at(rows_.highest),
                                       on_->at(rows_.sum), on_->at(rows_.of_target), on_->at(losses), count,
                                       rows_.width, rows_.used, rows_.first, rows_.gradient_scale},
                       count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    losses[i] = std::log(static_cast<double>(rows_.sum[i])) + static_cast<double>(rows_.highest[i]) -
                static_cast<double>(rows_.of_target[i]);
    const float factor = rows_.gradient_scale / rows_.sum[i];
    for (float& value : row(i)) value *= factor;
    if (target(i) < rows_.used) row(i)[target(i)] -= rows_.gradient_scale;
    std::fill_n(row(i).data() + rows_.used, rows_.width - rows_.used, 0.0f);
  }
}

void CrossEntropy::launch_parts(bool exponentials) const {
  const std::size_t count = rows_.targets.size();
  on_->launch(CrossEntropyPartsRun{on_->at(rows_.logits), targets_->at(), on_->at(rows_.highest), on_->at(rows_.sum),
                                   on_->at(rows_.of_target), count, rows_.width, rows_.used, rows_.first, exponentials},
              count);
}

}  // namespace wreath::training
