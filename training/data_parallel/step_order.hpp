// StepOrder is a strategy that makes its caller keep the order of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/parameters/strategy.hpp"

namespace wreath::training {

// Passes every call on. A call throws InvalidUsage, before anything is communicated, where it shows that an earlier
// call was left out. The error names the missing call and its unit.
class StepOrder final : public DataParallel {
 public:
  StepOrder(std::unique_ptr<DataParallel> strategy, int units);
  void begin_step(int micro_batches) override;
  void before_forward(int unit) override;
  void after_forward(int unit) override;
  void before_backward(int unit) override;
  void after_backward(int unit) override;
  void gradients_ready(int unit) override;
  void finish_backward() override;
  std::span<const Piece> pieces() override { return strategy_->pieces(); }
  bool divided() const override { return strategy_->divided(); }
  void finish_step() override;
  void skip_step() override;
  void set_synchronizing(bool on) override;

 private:
  enum class Phase : std::uint8_t { Outside, Passes, Reduced };
  // The calls in this step, or since the last one.
  struct Unit {
    int before_forward = 0;
    int after_forward = 0;
    int before_backward = 0;
    int after_backward = 0;
    int gradients_ready = 0;
  };
  Unit& unit(const char* call, int index);
  void expect_reduced(const char* call) const;

  std::unique_ptr<DataParallel> strategy_;
  std::vector<Unit> units_;
  Phase phase_ = Phase::Outside;
  int micro_batches_ = 0;
  bool synchronizing_ = true;
};

}  // namespace wreath::training
