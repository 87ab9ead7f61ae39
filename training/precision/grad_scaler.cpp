// This file moves the scale up and down.
#include "training/precision/grad_scaler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "training/compute/magnitudes.hpp"

namespace wreath::training {

namespace {

constexpr double kLeastScale = 0x1p-126;
constexpr double kHighestScale = 0x1p126;

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
}

bool is_scale(double value) { return is_power_of_two(value) && value >= kLeastScale && value <= kHighestScale; }

void check(const GradScalerOptions& options) {
  const bool fits = is_scale(options.initial_scale) && is_power_of_two(options.growth) && options.growth >= 1 &&
                    is_power_of_two(options.backoff) && options.backoff < 1 && options.growth_interval >= 1;
  if (fits) return;
  throw Exception({ErrorCode::InvalidArgument,
                   fmt::format("GradScaler: initial scale {}, growth {}, backoff {}, interval {}: must be powers of "
                               "two, the scale within 2^-126 .. 2^126, growth at least 1, backoff below 1, and the "
                               "interval at least 1",
                               options.initial_scale, options.growth, options.backoff, options.growth_interval)});
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options), scale_(options.initial_scale) {
  check(options);
}

bool GradScaler::found_infinity(std::span<const Piece> pieces, Group& world) const {
  std::array<std::uint32_t, 1> found{0};
  std::vector<std::span<const float>> gradients;
  for (const Piece& piece : pieces) gradients.push_back(piece.gradient);
  for (const float highest : highest_magnitudes(gradients)) found[0] |= std::isfinite(highest) ? 0u : 1u;
  world.all_reduce(std::span<std::uint32_t>(found), ReduceOp::Max);
  return found[0] != 0;
}

void GradScaler::update(bool found) {
  if (found) {
    scale_ = std::max(scale_ * options_.backoff, kLeastScale);
    good_steps_ = 0;
    ++skipped_;
  } else if (++good_steps_ == options_.growth_interval) {
    scale_ = std::min(scale_ * options_.growth, kHighestScale);
    good_steps_ = 0;
  }
}

std::string GradScaler::state() const {
  return fmt::format("scale {:.17g} good_steps {} skipped {}", scale_, good_steps_, skipped_);
}

Status GradScaler::restore(const std::string& state) {
  GradScaler read(options_);
  std::istringstream words(state);
  std::array<std::string, 3> names;
  words >> names[0] >> read.scale_ >> names[1] >> read.good_steps_ >> names[2] >> read.skipped_;
  const bool counts = read.good_steps_ >= 0 && read.good_steps_ < options_.growth_interval && read.skipped_ >= 0;
  if (!words || read.state() != state || !is_scale(read.scale_) || !counts) {
    return Error{ErrorCode::InvalidArgument, fmt::format("\"{}\" is no state of a GradScaler", state.substr(0, 100))};
  }
  *this = read;
  return {};
}

}  // namespace wreath::training
