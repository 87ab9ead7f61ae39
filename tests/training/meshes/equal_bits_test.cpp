// Training that differs only in its method ends with the same bits.
#include <gtest/gtest.h>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test::equal_bits {
namespace {

constexpr std::int64_t kSteps = 12;

TrainOptions with(const std::function<void(TrainOptions&)>& set) {
  TrainOptions options = small_options();
  options.warmup_steps = 2;
  set(options);
  return options;
}

void expect_equal_bits(const TrainOptions& a, const TrainOptions& b) {
  const TrainingRun one = train(a, kSteps);
  const TrainingRun other = train(b, kSteps);
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.gradient_norms, other.gradient_norms);
  EXPECT_EQ(one.weights, other.weights);
}

TEST(EqualBits, StagesOfZeroAndDistributedDataParallel) {
  const TrainOptions plain = with([](TrainOptions& o) { o.mesh = {.dp = 4}; });
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    TrainOptions divided = plain;
    divided.zero_stage = stage;
    expect_equal_bits(plain, divided);
  }
}

TEST(EqualBits, HybridShardsAndFullOnes) {
  const TrainOptions full = with([](TrainOptions& o) {
    o.mesh = {.dp = 4};
    o.zero_stage = 3;
  });
  TrainOptions hybrid = full;
  hybrid.hybrid_shards = 2;
  expect_equal_bits(full, hybrid);
}

TEST(EqualBits, StateInFilesAndInMemory) {
  for (const int stage : {0, 3}) {
    SCOPED_TRACE(stage);
    const TrainOptions memory = with([stage](TrainOptions& o) {
      o.mesh = {.dp = 2};
      o.zero_stage = stage;
    });
    TrainOptions files = memory;
    files.offload_folder = testing::TempDir();
    expect_equal_bits(memory, files);
  }
}

TEST(EqualBits, OverlapOnAndOffAndAnyBucket) {
  const TrainOptions overlapped = with([](TrainOptions& o) { o.mesh = {.dp = 2, .tp = 2}; });
  TrainOptions waiting = overlapped;
  waiting.overlap = false;
  expect_equal_bits(overlapped, waiting);
  TrainOptions small = overlapped;
  small.bucket_bytes = 5000;
  expect_equal_bits(overlapped, small);
}

TEST(EqualBits, PipelineSchedules) {
  const TrainOptions gpipe = with([](TrainOptions& o) {
    o.mesh = {.pp = 2};
    o.micro_batches = 4;
    o.schedule = "gpipe";
  });
  for (const char* schedule : {"1f1b", "interleaved", "zb_h1"}) {
    SCOPED_TRACE(schedule);
    TrainOptions other = gpipe;
    other.schedule = schedule;
    if (other.schedule == "interleaved") other.chunks = 2;
    expect_equal_bits(gpipe, other);
  }
}

TEST(EqualBits, BlocksRunAgainInsteadOfKept) {
  const TrainOptions kept = with([](TrainOptions& o) {
    o.model.dropout = 0.2f;
    o.micro_batches = 2;
    o.mesh = {.tp = 2};
  });
  TrainOptions again = kept;
  again.recompute = true;
  expect_equal_bits(kept, again);
}

// Dropout is drawn by a token's place in the global batch, so every mesh drops the same values.
TEST(EqualBits, DropoutOnEveryDivisionOfTheBatch) {
  const TrainOptions alone = with([](TrainOptions& o) { o.model.dropout = 0.2f; });
  const std::vector<double> expected = train(alone, kSteps).losses;
  for (const training::MeshShape& mesh : {training::MeshShape{.dp = 2}, {.cp = 2}, {.tp = 2}, {.cp = 2, .tp = 2}}) {
    TrainOptions divided = alone;
    divided.mesh = mesh;
    divided.sequence_parallel = mesh.tp > 1;
    for (const char* attention : mesh.cp > 1 ? std::vector{"ring", "ulysses"} : std::vector{"ring"}) {
      divided.context_attention = attention;
      EXPECT_LT(largest_difference(expected, train(divided, kSteps).losses), 5e-7) << name(mesh) << " " << attention;
    }
  }
}

TEST(EqualBits, TransportsOfTheRanks) {
  // Ranks that are threads use inproc; a second run uses sockets.
  const TrainOptions options = with([](TrainOptions& o) { o.mesh = {.dp = 2, .cp = 2}; });
  CommunicatorOptions sockets;
  sockets.transports = {"tcp"};
  const TrainingRun memory = train(options, kSteps);
  const TrainingRun wire = train(options, kSteps, {}, sockets);
  EXPECT_EQ(memory.losses, wire.losses);
  EXPECT_EQ(memory.weights, wire.weights);
}

}  // namespace
}  // namespace wreath::gpt::test::equal_bits
