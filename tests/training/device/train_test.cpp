// A GPT trained on the host device, whose memory no function of the host can touch, beside the same on the CPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {
namespace {

constexpr std::int64_t kSteps = 24;

TrainOptions options_of(Device* device) {
  TrainOptions options = small_options();
  options.model.layers = 2;
  options.model.heads = 2;
  options.model.width = 16;
  options.model.bias = true;
  options.warmup_steps = 4;
  options.device = device;
  return options;
}

CommunicatorOptions communicator() {
  CommunicatorOptions options;
  options.device = "host";
  return options;
}

TrainingRun train_on(Device* device, const std::function<void(TrainOptions&)>& change = {},
                     std::int64_t steps = kSteps) {
  TrainOptions options = options_of(device);
  if (change) change(options);
  return train(options, steps, {}, device != nullptr ? communicator() : CommunicatorOptions());
}

TEST(TrainOnDevice, FollowsTheCpu) {
  const TrainingRun cpu = train_on(nullptr);
  const TrainingRun device = train_on(&host_device());
  EXPECT_LT(largest_difference(cpu.losses, device.losses), 5e-7);
  EXPECT_LT(largest_difference(cpu.gradient_norms, device.gradient_norms), 1e-5);
  EXPECT_LT(largest_difference(cpu.first_gradients, device.first_gradients), 1e-5);
}

}  // namespace
}  // namespace wreath::gpt::test
