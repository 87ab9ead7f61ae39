// GradScaler is a loss scale that keeps small gradients above float16's least value, and finds a fitting value by
// itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "training/mesh/group.hpp"
#include "training/parameters/strategy.hpp"

namespace wreath::training {

// The options, by default PyTorch's. All factors are powers of two, so that scaling is exact.
struct GradScalerOptions {
  double initial_scale = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;  // good steps
};

// Scales the loss of one rank. In a step the loss times scale() is differentiated. With the whole gradients every rank
// then calls found_infinity(). Where it is true the optimizer does not step; otherwise its gradient factor is divided
// by the scale. update() ends the step.
class GradScaler {
 public:
  // Throws InvalidArgument for a scale, growth or backoff that is no power of two. It also throws for a growth below 1,
  // a backoff of 1 or more, and an interval below 1.
  explicit GradScaler(const GradScalerOptions& options = {});
  double scale() const noexcept { return scale_; }
  // Returns the number of steps skipped so far.
  std::int64_t skipped() const noexcept { return skipped_; }
  // Returns whether a gradient of any rank is infinite or NaN; the answer is the same on all ranks. `world` has all
  // ranks of the job. It takes one all_reduce of 4 bytes.
  bool found_infinity(std::span<const Piece> pieces, Group& world) const;
  // Where `found` is true, backs off and counts a skipped step. Otherwise it counts a good step, and the scale grows
  // after growth_interval of them. The scale stays within 2^-126 .. 2^126.
  void update(bool found);
  // The state for checkpoints: "scale 65536 good_steps 12 skipped 1". restore() returns InvalidArgument for a text that
  // state() does not give.
  std::string state() const;
  Status restore(const std::string& state);

 private:
  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;  // since the scale changed
  std::int64_t skipped_ = 0;
};

}  // namespace wreath::training
