// The cross-entropy of rows of logits and its gradient, in three steps: between them ranks that hold parts of a row
// combine what each found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "training/compute/compute.hpp"

namespace wreath::training {

// A rank's part of the logits [rows][width], and what its ranks know of each row. The first `used` logits of a row are
// those of the words first .. first + used - 1; the others are padding.
struct LogitRows {
  std::span<float> logits;
  std::span<const std::int32_t> targets;  // words, in host memory
  std::size_t width;
  std::size_t used;
  std::int64_t first;
  float gradient_scale;
  std::span<float> highest, sum, of_target;  // a value a row
};

// All memory of `rows` but the targets lies in one place. It outlives this.
class CrossEntropy {
 public:
  explicit CrossEntropy(const LogitRows& rows);
  // Writes the highest logit of each row.
  void find_highest() const;
  // Logits become exp(logit - highest). Writes their sum, and the target's logit as it was: 0 where another rank has
  // it.
  void exponentiate() const;
  // Writes each row's loss; logits become their gradients, and 0 where they are padding.
  void finish(std::span<double> losses) const;

 private:
  std::span<float> row(std::size_t row) const { return rows_.logits.subspan(row * rows_.width, rows_.used); }
  // The target's place in row(); `used` or more where another rank has it.
  std::size_t target(std::size_t row) const { return static_cast<std::size_t>(rows_.targets[row] - rows_.first); }
  void launch_parts(bool exponentials) const;

  LogitRows rows_;
  Compute* on_;
  std::optional<OnCompute<std::int32_t>> targets_;  // with on_
};

}  // namespace wreath::training
