// A GPT is trained on a device, and the same GPT on the CPU. The device is a GPU where there is one, else the host
// device, whose memory no function of the host can touch.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/support/processes.hpp"
#include "tests/training/device/on_device.hpp"
#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test {
namespace {

using training::test::tested_device;

// After so many steps a fault of one step shows in the losses.
constexpr int kEnough = testing_support::kSanitized ? 2 : 24;

// A second step uses what the first one left.
std::int64_t few_steps() { return testing_support::kSanitized ? 2 : testing_support::rounds(8, kEnough); }

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
  options.device = tested_device().name();
  return options;
}

TrainingRun train_on(Device* device, const std::function<void(TrainOptions&)>& change = {},
                     std::int64_t steps = few_steps()) {
  TrainOptions options = options_of(device);
  if (change) change(options);
  return train(options, steps, {}, device != nullptr ? communicator() : CommunicatorOptions());
}

TEST(TrainOnDevice, FollowsTheCpu) {
  const TrainingRun cpu = train_on(nullptr, {}, kEnough);
  const TrainingRun device = train_on(&tested_device(), {}, kEnough);
  EXPECT_LT(largest_difference(cpu.losses, device.losses), 5e-7);
  EXPECT_LT(largest_difference(cpu.gradient_norms, device.gradient_norms), 1e-5);
  EXPECT_LT(largest_difference(cpu.first_gradients, device.first_gradients), 1e-5);
}

struct MeshCase {
  const char* name;
  void (*change)(TrainOptions&);
};

class TrainOnDevices : public testing::TestWithParam<MeshCase> {};

// The CPU trains on the same mesh of ranks, so a division costs the same rounding on both.
TEST_P(TrainOnDevices, FollowTheCpus) {
  const TrainingRun cpu = train_on(nullptr, GetParam().change);
  const TrainingRun device = train_on(&tested_device(), GetParam().change);
  EXPECT_LT(largest_difference(cpu.losses, device.losses), 5e-7);
  EXPECT_LT(largest_difference(cpu.first_gradients, device.first_gradients), 1e-5);
  for (std::size_t rank = 0; rank < cpu.traffic.size(); ++rank) {
    const auto payload = [](const training::CommunicationAccounting& accounting) {
      std::map<training::CommunicationAccounting::Key, std::uint64_t> bytes;
      for (const auto& [key, traffic] : accounting.all()) bytes[key] = traffic.bytes;
      return bytes;
    };
    EXPECT_EQ(payload(cpu.traffic[rank]), payload(device.traffic[rank])) << "rank " << rank;
    for (std::size_t i = 0; i < training::kMemoryTags; ++i) {
      const auto tag = static_cast<training::MemoryTag>(i);
      EXPECT_EQ(cpu.memory[rank].bytes(tag), device.memory[rank].bytes(tag)) << training::name(tag);
    }
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
                    MeshCase{"dp2_dropout", [](TrainOptions& of) { of.mesh.dp = 2, of.model.dropout = 0.2f; }},
                    MeshCase{"cp2_ring", [](TrainOptions& of) { of.mesh.cp = 2; }},
                    MeshCase{"cp2_ulysses",
                             [](TrainOptions& of) { of.mesh.cp = 2, of.context_attention = "ulysses"; }}),
    [](const auto& row) { return std::string(row.param.name); });

// Buckets are sent while backward runs, or all after it. Only the time differs; a bucket that the step did not wait for
// would show in the bits.
TEST(OverlapOnDevice, ChangesNoBits) {
  const auto run = [](bool overlap, int zero) {
    return train_on(&tested_device(), [&](TrainOptions& of) {
      of.mesh.dp = 2;
      of.zero_stage = zero;
      of.overlap = overlap;
      of.bucket_bytes = 2000;
    });
  };
  for (const int zero : {0, 2}) {
    const TrainingRun beside = run(true, zero), behind = run(false, zero);
    EXPECT_EQ(beside.losses, behind.losses);
    EXPECT_EQ(beside.weights, behind.weights);
  }
}

struct PrecisionCase {
  const char* name;
  double bound;  // that of tests/training/precision
};
class PrecisionOnDevice : public testing::TestWithParam<PrecisionCase> {};
TEST_P(PrecisionOnDevice, FollowsTheCpu) {
  const char* const name = GetParam().name;
  const auto change = [name](TrainOptions& of) {
    of.mesh.dp = 2;
    of.zero_stage = 1;
    of.precision = name;
  };
  const TrainingRun cpu = train_on(nullptr, change), device = train_on(&tested_device(), change);
  EXPECT_LT(largest_difference(cpu.losses, device.losses), GetParam().bound);
  EXPECT_GT(largest_difference(train_on(nullptr).losses, device.losses), 1e-7) << "nothing was rounded";
}
INSTANTIATE_TEST_SUITE_P(Formats, PrecisionOnDevice,
                         testing::Values(PrecisionCase{"bfloat16", 1e-3}, PrecisionCase{"float16", 1.5e-4},
                                         PrecisionCase{"fp8", 3e-3}),
                         [](const auto& row) { return std::string(row.param.name); });

// The gradient of one weight is a tenth too large in one step. The bound of FollowsTheCpu must notice it.
TEST(TrainOnDevice, AWrongGradientIsSeen) {
  if (testing_support::kSanitized) GTEST_SKIP() << "sanitizers do not change its bound: run it in the build dev";
  const TrainingRun cpu = train_on(nullptr, {}, kEnough);
  const TrainingRun wrong = train(
      options_of(&tested_device()), kEnough,
      [](Trainer& trainer) {
        trainer.observe_gradients([&trainer](std::span<const training::Piece> pieces) {
          if (trainer.steps_done() != 3) return;
          const auto largest =
              std::ranges::max_element(pieces, {}, [](const auto& piece) { return piece.value.size(); });
          training::scale(trainer.parameters().find(largest->parameter->name)->gradient, 1.1f);
        });
      },
      communicator());
  EXPECT_GT(largest_difference(cpu.losses, wrong.losses), 5 * 5e-7);
}

}  // namespace
}  // namespace wreath::gpt::test
