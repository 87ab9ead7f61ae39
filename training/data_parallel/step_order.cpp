// This file counts the calls of a step and compares the counts.
#include "training/data_parallel/step_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wreath/result.hpp"

namespace wreath::training {

namespace {

[[noreturn]] void refuse_usage(const std::string& what) { throw Exception({ErrorCode::InvalidUsage, what}); }

void expect(bool done, const char* call, const char* left_out) {
  if (!done) refuse_usage(fmt::format("{}: {} was left out", call, left_out));
}

void expect(bool done, const char* call, const char* left_out, int unit) {
  if (!done) refuse_usage(fmt::format("{}: {} of unit {} was left out", call, left_out, unit));
}

}  // namespace

StepOrder::StepOrder(std::unique_ptr<DataParallel> strategy, int units)
    : strategy_(std::move(strategy)), units_(static_cast<std::size_t>(units)) {}

StepOrder::Unit& StepOrder::unit(const char* call, int index) {
  if (index >= 0 && static_cast<std::size_t>(index) < units_.size()) return units_[static_cast<std::size_t>(index)];
  throw Exception({ErrorCode::InvalidArgument,
                   fmt::format("{} of unit {}: the parameters are of units 0 .. {}", call, index, units_.size() - 1)});
}

void StepOrder::begin_step(int micro_batches) {
  expect(phase_ != Phase::Passes, "begin_step", "finish_backward");
  expect(phase_ != Phase::Reduced, "begin_step", "finish_step (or skip_step)");
  std::fill(units_.begin(), units_.end(), Unit{});
  micro_batches_ = micro_batches;
  strategy_->begin_step(micro_batches);
  phase_ = Phase::Passes;
}

void StepOrder::before_forward(int index) {
  ++unit("before_forward", index).before_forward;
  strategy_->before_forward(index);
}

void StepOrder::after_forward(int index) {
  Unit& unit = this->unit("after_forward", index);
  expect(unit.after_forward < unit.before_forward, "after_forward", "before_forward", index);
  ++unit.after_forward;
  strategy_->after_forward(index);
}

void StepOrder::before_backward(int index) {
  constexpr const char* kCall = "before_backward";
  Unit& unit = this->unit(kCall, index);
  expect(phase_ == Phase::Passes, kCall, "begin_step");
  expect(unit.before_backward < unit.before_forward, kCall, "before_forward", index);
  expect(unit.before_backward < unit.after_forward, kCall, "after_forward", index);
  ++unit.before_backward;
  strategy_->before_backward(index);
}

void StepOrder::after_backward(int index) {
  Unit& unit = this->unit("after_backward", index);
  expect(unit.after_backward < unit.before_backward, "after_backward", "before_backward", index);
  ++unit.after_backward;
  strategy_->after_backward(index);
}

void StepOrder::gradients_ready(int index) {
  constexpr const char* kCall = "gradients_ready";
  Unit& unit = this->unit(kCall, index);
  expect(phase_ == Phase::Passes, kCall, "begin_step");
  if (unit.gradients_ready >= micro_batches_) {
    refuse_usage(fmt::format("gradients_ready of unit {} in a step of {} micro-batches was called once more", index,
                             micro_batches_));
  }
  expect(unit.gradients_ready < unit.before_backward, kCall, "before_backward", index);
  expect(unit.gradients_ready < unit.after_backward, kCall, "after_backward", index);
  ++unit.gradients_ready;
  strategy_->gradients_ready(index);
}

// A step may leave out units that no micro-batch used.
void StepOrder::finish_backward() {
  constexpr const char* kCall = "finish_backward";
  expect(phase_ == Phase::Passes, kCall, "begin_step");
  for (int index = 0; index < static_cast<int>(units_.size()); ++index) {
    const Unit& unit = this->unit(kCall, index);
    expect(unit.after_forward == unit.before_forward, kCall, "after_forward", index);
    expect(unit.before_backward == unit.before_forward, kCall, "before_backward", index);
    expect(unit.after_backward == unit.before_backward, kCall, "after_backward", index);
    expect(unit.gradients_ready == unit.before_backward, kCall, "gradients_ready", index);
  }
  strategy_->finish_backward();
  phase_ = synchronizing_ ? Phase::Reduced : Phase::Outside;
}

void StepOrder::expect_reduced(const char* call) const { expect(phase_ != Phase::Passes, call, "finish_backward"); }

// Outside of steps this call passes on weights that were loaded.
void StepOrder::finish_step() {
  expect_reduced("finish_step");
  strategy_->finish_step();
  phase_ = Phase::Outside;
}

void StepOrder::skip_step() {
  expect_reduced("skip_step");
  phase_ = Phase::Outside;
}

void StepOrder::set_synchronizing(bool on) {
  synchronizing_ = on;
  strategy_->set_synchronizing(on);
}

}  // namespace wreath::training
