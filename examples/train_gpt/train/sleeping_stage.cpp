// This file makes stages that take longer.
#include "examples/train_gpt/train/sleeping_stage.hpp"

#include <thread>

namespace wreath::gpt {

void SleepingStage::sleep(int times) const {
  if (state_.training) std::this_thread::sleep_for(times * time_);
}

void SleepingStage::forward(int micro_batch, std::span<const float> input, std::span<float> output) {
  stage_.forward(micro_batch, input, output);
  sleep(1);
}

void SleepingStage::backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) {
  stage_.backward(micro_batch, output_gradient, input_gradient);
  sleep(1);
}

void SleepingStage::backward_weights(int micro_batch) {
  stage_.backward_weights(micro_batch);
  sleep(1);
}

void SleepingStage::backward_whole(int micro_batch, std::span<const float> output_gradient,
                                   std::span<float> input_gradient) {
  stage_.backward_whole(micro_batch, output_gradient, input_gradient);
  sleep(2);
}

}  // namespace wreath::gpt
