// SleepingStage makes each pass of a stage longer by a sleep, so that few cores show the behaviour of a pipeline on
// many.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>

#include "examples/train_gpt/model/gpt_stage.hpp"

namespace wreath::gpt {

// Sleeps once in forward, backward by input and backward by weights, after the stage's own work. It does not sleep in
// validation.
class SleepingStage final : public training::Stage {
 public:
  // The stage and the state outlive this object.
  SleepingStage(training::Stage& stage, const StepState& state, std::chrono::milliseconds time)
      : stage_(stage), state_(state), time_(time) {}

  std::size_t boundary_count() const override { return stage_.boundary_count(); }
  void forward(int micro_batch, std::span<const float> input, std::span<float> output) override;
  void backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) override;
  void backward_weights(int micro_batch) override;
  void backward_whole(int micro_batch, std::span<const float> output_gradient,
                      std::span<float> input_gradient) override;

 private:
  void sleep(int times) const;

  training::Stage& stage_;
  const StepState& state_;
  std::chrono::milliseconds time_;
};

}  // namespace wreath::gpt
