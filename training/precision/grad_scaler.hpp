// GradScaler: a loss scale that keeps small gradients above float16's least value, and finds one that fits by itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "training/mesh/group.hpp"
#include "training/parameters/strategy.hpp"

namespace wreath::training {

// PyTorch's, by default. All are powers of two, so that scaling is exact.
struct GradScalerOptions {
  double initial_scale = 65536;
  double growth = 2;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;  // good steps
};

// A step: the loss times scale() is differentiated; with the whole gradients every rank asks found_infinity(); where it
// is true the optimizer does not step, else its gradient factor is divided by the scale; update(). One rank's.
class GradScaler {
 public:
  // InvalidArgument is thrown for a scale, growth or backoff that is no power of two, for a growth below 1, a backoff
  // of 1 or more, and an interval below 1.
  explicit GradScaler(const GradScalerOptions& options = {});
  double scale() const noexcept { return scale_; }
  // Steps skipped so far.
  std::int64_t skipped() const noexcept { return skipped_; }
  // Whether a gradient of any rank is infinite or NaN: the same answer on all. `world` has all ranks of the job. One
  // all_reduce of 4 bytes.
  bool found_infinity(std::span<const Piece> pieces, Group& world) const;
  // found: backs off and counts a skipped step; else a good step, after growth_interval of which the scale grows. It
  // stays within 2^-126 .. 2^126.
  void update(bool found);
  // For checkpoints: "scale 65536 good_steps 12 skipped 1". InvalidArgument: a text that state() does not give.
  std::string state() const;
  Status restore(const std::string& state);

 private:
  GradScalerOptions options_;
  double scale_;
  std::int64_t good_steps_ = 0;  // since the scale changed
  std::int64_t skipped_ = 0;
};

}  // namespace wreath::training
