// This file declares the cross-entropy of rows of logits and its gradient, in three steps. Between the steps, ranks
// that hold parts of a row combine their results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "training/compute/compute.hpp"

namespace wreath::training {

// A rank's part of the logits [rows][width], and the values that its ranks share for each row. The first `used` logits
// of a row belong to the words first .. first + used - 1; the others are padding.
struct LogitRows {
  std::span<float> logits;
  std::span<const std::int32_t> targets;  // words, in host memory
  std::size_t width;
  std::size_t used;
  std::int64_t first;
  float gradient_scale;
  std::span<float> highest, sum, of_target;  // a value a row
};

// Computes the loss in three steps. All memory of `rows` except the targets lies in one place, and it outlives this
// object.
class CrossEntropy {
 public:
  explicit CrossEntropy(const LogitRows& rows);
  // Writes the highest logit of each row.
  void find_highest() const;
  // Replaces logits by exp(logit - highest). Writes their sum and the target's original logit, or 0 where another rank
  // has the target.
  void exponentiate() const;
  // Writes each row's loss and replaces the logits by their gradients, which are 0 for padding.
  void finish(std::span<double> losses) const;

 private:
  std::span<float> row(std::size_t row) const { return rows_.logits.subspan(row * rows_.width, rows_.used); }
  // Returns the target's place in row(), or a number >= `used` where another rank has it.
  std::size_t target(std::size_t row) const { return static_cast<std::size_t>(rows_.targets[row] - rows_.first); }
  void launch_parts(bool exponentials) const;

  LogitRows rows_;
  Compute* on_;
  std::optional<OnCompute<std::int32_t>> targets_;  // with on_
};

}  // namespace wreath::training
