// A GPT trained on the host device, whose memory no function of the host can touch, beside the same on the CPU.
#include <gtest/gtest.h>

#include <map>
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

struct MeshCase {
  const char* name;
  void (*change)(TrainOptions&);
};

class TrainOnDevices : public testing::TestWithParam<MeshCase> {};

// The same mesh of ranks on the CPU: what a division costs in rounding is the same on both.
TEST_P(TrainOnDevices, FollowTheCpus) {
  const TrainingRun cpu = train_on(nullptr, GetParam().change);
  const TrainingRun device = train_on(&host_device(), GetParam().change);
  EXPECT_LT(largest_difference(cpu.losses, device.losses), 5e-7);
  EXPECT_LT(largest_difference(cpu.first_gradients, device.first_gradients), 1e-5);
  for (std::size_t rank = 0; rank < cpu.traffic.size(); ++rank) {
    const auto payload = [](const training::CommunicationAccounting& accounting) {
      std::map<training::CommunicationAccounting::Key, std::uint64_t> bytes;
      for (const auto& [key, traffic] : accounting.all()) bytes[key] = traffic.bytes;
      return bytes;
    };
    EXPECT_EQ(payload(cpu.traffic[rank]), payload(device.traffic[rank])) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, TrainOnDevices,
    testing::Values(MeshCase{"dp2", [](TrainOptions& of) { of.mesh.dp = 2; }},
                    MeshCase{"dp2_zero1", [](TrainOptions& of) { of.mesh.dp = 2, of.zero_stage = 1; }},
                    MeshCase{"dp2_zero2", [](TrainOptions& of) { of.mesh.dp = 2, of.zero_stage = 2; }},
                    MeshCase{"dp2_zero3", [](TrainOptions& of) { of.mesh.dp = 2, of.zero_stage = 3; }},
                    MeshCase{"tp2", [](TrainOptions& of) { of.mesh.tp = 2; }},
                    MeshCase{"tp2_sequence", [](TrainOptions& of) { of.mesh.tp = 2, of.sequence_parallel = true; }},
                    MeshCase{"pp2", [](TrainOptions& of) { of.mesh.pp = 2, of.micro_batches = 2; }},
                    MeshCase{"cp2_ring", [](TrainOptions& of) { of.mesh.cp = 2; }}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace wreath::gpt::test
