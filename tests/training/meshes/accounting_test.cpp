// The bytes that a training step communicates, and the bytes of its state, agree with closed forms. The formulas know
// the model's sizes, and use nothing of the layer.
#include <gtest/gtest.h>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test::accounting {
namespace {

using training::MemoryTag;

// This is nanoGPT's CPU shape, of 804,096 parameters with a vocabulary of 65. The text here has 53 kinds of letters,
// which no tensor group divides.
constexpr std::uint64_t kLayers = 4, kWidth = 128, kContext = 64, kBatch = 12, kVocabulary = 53, kFloat = 4;
constexpr std::uint64_t kRows = kBatch * kContext;
// The loss travels together with the request of a rank to end.
constexpr std::uint64_t kLoss = 2 * sizeof(double);

constexpr std::uint64_t parameters_of(std::uint64_t vocabulary) {
  return vocabulary * kWidth + kContext * kWidth + kLayers * (12 * kWidth * kWidth + 2 * kWidth) + kWidth;
}
static_assert(parameters_of(65) == 804'096);
constexpr std::uint64_t kParameters = parameters_of(kVocabulary);

TrainOptions options_of(const training::MeshShape& mesh) {
  TrainOptions options;
  options.mesh = mesh;
  options.model.layers = kLayers;
  options.model.width = kWidth;
  options.model.context = kContext;
  options.batch = kBatch;
  return options;
}

void expect(const training::CommunicationAccounting& traffic, const char* group, const char* operation,
            std::uint64_t calls, std::uint64_t bytes) {
  const training::Traffic counted = traffic.of(group, operation);
  EXPECT_EQ(counted.calls, calls) << group << " " << operation;
  EXPECT_EQ(counted.bytes, bytes) << group << " " << operation;
}

// Expects `kinds` pairs of a group and an operation that communicated. A call that no formula knows makes one too many.
void expect_kinds(const training::CommunicationAccounting& traffic, std::size_t kinds) {
  EXPECT_EQ(traffic.all().size(), kinds);
  for (const auto& [key, counted] : traffic.all()) {
    if (traffic.all().size() != kinds) std::printf("%s %s\n", key.first.c_str(), key.second.c_str());
  }
}

TEST(Accounting, OneRankSaysNothing) {
  const TrainingRun run = train(options_of({}), 1);
  EXPECT_TRUE(run.traffic[0].all().empty());
}

TEST(Accounting, DistributedDataParallelReducesEachGradientOnce) {
  const TrainingRun run = train(options_of({.dp = 2}), 1);
  for (const auto& traffic : run.traffic) {
    expect(traffic, "dp_cp", "all_reduce", traffic.of("dp_cp", "all_reduce").calls, kParameters * kFloat);
    expect(traffic, "world", "all_reduce", 1, kLoss);
    expect_kinds(traffic, 2);
  }
}

// Blocks are padded to a multiple of the ranks: each bucket in the first stage, each unit in the others.
TEST(Accounting, ZeroOneMovesGradientsAndWeightsOnce) {
  TrainOptions options = options_of({.dp = 2});
  options.zero_stage = 1;
  const TrainingRun run = train(options, 1);
  for (const auto& traffic : run.traffic) {
    const std::uint64_t buckets = traffic.of("dp_cp", "reduce_scatter").calls;
    expect(traffic, "dp_cp", "reduce_scatter", buckets, kParameters * kFloat);  // divides by 2
    expect(traffic, "dp_cp", "all_gather", buckets, kParameters * kFloat);
    expect_kinds(traffic, 3);
  }
}

TEST(Accounting, ZeroThreeGathersTwiceButForTheUnitInTheMiddle) {
  TrainOptions options = options_of({.dp = 2});
  options.zero_stage = 3;
  const TrainingRun run = train(options, 1);
  // The head's own weight is its layer norm. The head also uses the table, in the middle of both passes.
  constexpr std::uint64_t kEmbedding = (kVocabulary + kContext) * kWidth, kBlock = 12 * kWidth * kWidth + 2 * kWidth;
  for (const auto& traffic : run.traffic) {
    expect(traffic, "dp_cp", "reduce_scatter", kLayers + 2, kParameters * kFloat);
    const std::uint64_t gathered = traffic.of("dp_cp", "all_gather").bytes;
    EXPECT_GE(gathered, (2 * kLayers * kBlock + kEmbedding + kWidth) * kFloat);
    EXPECT_LE(gathered, (2 * kLayers * kBlock + 3 * kEmbedding + 2 * kWidth) * kFloat);
  }
}

TEST(Accounting, TensorParallelismReducesTwiceALayerAndDirection) {
  const TrainingRun run = train(options_of({.tp = 2}), 1);
  for (const auto& traffic : run.traffic) {
    expect(traffic, "tp", "all_reduce", 4 * kLayers + 2 + 3,
           (4 * kLayers + 2) * kRows * kWidth * kFloat + 3 * kRows * kFloat);
    expect(traffic, "model", "all_reduce", 2, 4 + 16);  // the norm
    expect_kinds(traffic, 3);
  }
}

TEST(Accounting, SequenceParallelismMovesTheSameBytesAndTheInputsAgain) {
  TrainOptions options = options_of({.tp = 2});
  options.sequence_parallel = true;
  const TrainingRun run = train(options, 1);
  constexpr std::uint64_t kWhole = kRows * kWidth * kFloat;
  for (const auto& traffic : run.traffic) {
    // Forward has 2 gathers a layer and the head's. Backward has 2 a layer for the gradients of rows, and 4 a layer for
    // those of weights. It also has those of the head's input and of the embedding's gradient.
    expect(traffic, "tp", "all_gather", 8 * kLayers + 3, (8 * kLayers + 3) * kWhole);
    // Forward has 2 a layer and the embedding's. Backward has 2 a layer and the head's.
    expect(traffic, "tp", "reduce_scatter", 4 * kLayers + 2, (4 * kLayers + 2) * kWhole);
    // The loss makes three calls. One more carries all gradients of which each rank has a part: those of the layer
    // norms and of the places.
    expect(traffic, "tp", "all_reduce", 3 + 1,
           3 * kRows * kFloat + ((2 * kLayers + 1) * kWidth + kContext * kWidth) * kFloat);
  }
}

TEST(Accounting, PipelinesSendEachBoundaryOnceADirection) {
  TrainOptions options = options_of({.pp = 2});
  options.micro_batches = 4;
  const TrainingRun run = train(options, 1);
  for (const auto& traffic : run.traffic) {
    // The bytes are those of the whole batch, for any number of micro-batches.
    expect(traffic, "pp", "send", 4, kRows * kWidth * kFloat);
    expect(traffic, "pp", "recv", 4, kRows * kWidth * kFloat);
    expect(traffic, "embedding", "all_reduce", 1, kVocabulary * kWidth * kFloat);
  }
}

TEST(Accounting, RingAttentionSendsKeysAndValuesAround) {
  const TrainingRun run = train(options_of({.cp = 2}), 1);
  constexpr std::uint64_t kBlock = 2 * kBatch * (kContext / 2) * kWidth * kFloat;  // K and V of a rank
  for (const auto& traffic : run.traffic) {
    EXPECT_EQ(traffic.of("cp", "send").bytes, kLayers * (1 + 3) * kBlock);
    EXPECT_EQ(traffic.of("cp", "recv").bytes, kLayers * (1 + 3) * kBlock);
    EXPECT_EQ(traffic.of("dp_cp", "all_reduce").bytes, kParameters * kFloat);
  }
}

// Gradients and weights move as 2 bytes each; the sums of the tensor ranks remain float32.
TEST(Accounting, MixedPrecisionHalvesWhatReplicasExchange) {
  constexpr std::uint64_t kHalf = 2;
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    TrainOptions options = options_of({.dp = 2});
    options.precision = "bfloat16";
    options.zero_stage = stage;
    const TrainingRun run = train(options, 1);
    for (const auto& traffic : run.traffic) {
      const char* reduces = stage == 0 ? "all_reduce" : "reduce_scatter";
      expect(traffic, "dp_cp", reduces, traffic.of("dp_cp", reduces).calls, kParameters * kHalf);
      const std::uint64_t gathered = traffic.of("dp_cp", "all_gather").bytes;
      if (stage == 3) {
        EXPECT_GE(gathered, (2 * kParameters - kVocabulary * kWidth - kContext * kWidth - kWidth) * kHalf);
        EXPECT_LE(gathered, (2 * kParameters + kVocabulary * kWidth + kContext * kWidth) * kHalf);
      } else {
        EXPECT_EQ(gathered, stage == 0 ? 0 : kParameters * kHalf);
      }
    }
  }
}

// The tests below count what the transports moved over all ranks with a pinned algorithm: rings, and all_to_all by
// pairs.

std::uint64_t moved(const TrainingRun& run, const char* group, const char* operation) {
  std::uint64_t bytes = 0;
  for (const auto& traffic : run.traffic) bytes += traffic.of(group, operation).wire_bytes;
  return bytes;
}

CommunicatorOptions pinned(const char* transport, const char* algorithm) {
  CommunicatorOptions options;
  options.transports = {transport};
  options.overrides.algorithm = algorithm;
  return options;
}

class Moved : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, Moved, testing::Values("inproc", "shm", "tcp"),
                         [](const auto& transport) { return std::string(transport.param); });

TEST_P(Moved, GradientsTwiceRanksLessOneTimes) {
  const TrainingRun run = train(options_of({.dp = 3}), 1, {}, pinned(GetParam(), "ring"));
  EXPECT_EQ(moved(run, "dp_cp", "all_reduce"), 2 * (3 - 1) * kParameters * kFloat);
  EXPECT_EQ(moved(run, "world", "all_reduce"), 2 * (3 - 1) * kLoss);
}

TEST_P(Moved, GradientsAndWeightsOfZeroRanksLessOneTimes) {
  TrainOptions options = options_of({.dp = 2});
  options.zero_stage = 2;
  const TrainingRun run = train(options, 1, {}, pinned(GetParam(), "ring"));
  EXPECT_EQ(moved(run, "dp_cp", "reduce_scatter"), kParameters * kFloat);
  EXPECT_EQ(moved(run, "dp_cp", "all_gather"), kParameters * kFloat);
}

TEST_P(Moved, ActivationsOfTensorRanks) {
  const TrainingRun run = train(options_of({.dp = 2, .tp = 2}), 1, {}, pinned(GetParam(), "ring"));
  // The rows of one tensor group, of which there are two.
  constexpr std::uint64_t kHere = kRows / 2;
  EXPECT_EQ(moved(run, "tp", "all_reduce"), 2 * 2 * ((4 * kLayers + 2) * kHere * kWidth * kFloat + 3 * kHere * kFloat));
  EXPECT_EQ(moved(run, "model", "all_reduce"), 2 * 2 * (4 + 16));
  EXPECT_EQ(moved(run, "world", "all_reduce"), 2 * 3 * kLoss);
}

TEST_P(Moved, BoundariesOfAPipelineAndTheTiedTable) {
  TrainOptions options = options_of({.pp = 2});
  options.micro_batches = 4;
  const TrainingRun run = train(options, 1, {}, pinned(GetParam(), "ring"));
  EXPECT_EQ(moved(run, "pp", "send"), 2 * kRows * kWidth * kFloat);
  EXPECT_EQ(moved(run, "pp", "recv"), 0u);
  EXPECT_EQ(moved(run, "embedding", "all_reduce"), 2 * kVocabulary * kWidth * kFloat);
}

TEST_P(Moved, KeysAndValuesAroundTheRing) {
  const TrainingRun run = train(options_of({.cp = 2}), 1, {}, pinned(GetParam(), "ring"));
  EXPECT_EQ(moved(run, "cp", "send"), kLayers * (1 + 3) * 2 * kRows * kWidth * kFloat);
}

// Forward exchanges Q, K, V and the output with the log-sum-exp. Backward exchanges the same, the output's gradient and
// delta.
TEST_P(Moved, HalfOfWhatUlyssesExchanges) {
  TrainOptions options = options_of({.cp = 2});
  options.context_attention = "ulysses";
  const TrainingRun run = train(options, 1, {}, pinned(GetParam(), "pairwise"));
  constexpr std::uint64_t kHeads = 4;
  EXPECT_EQ(moved(run, "cp", "all_to_all_v"),
            kLayers * ((4 * kWidth + kHeads) + (7 * kWidth + 2 * kHeads)) * kRows * kFloat / 2);
}

// The allocator that serves the model's state counts its bytes.
TEST(Accounting, ModelStateIsWhatTheFormulasOfZeroSay) {
  struct Row {
    int stage;
    std::uint64_t parameters, gradients, optimizer;  // bytes a parameter, times 2
  };
  for (const Row& row : {Row{0, 8, 8, 16}, Row{1, 8, 8, 8}, Row{2, 8, 4, 8}, Row{3, 4, 4, 8}}) {
    TrainOptions options = options_of({.dp = 2});
    options.zero_stage = row.stage;
    const TrainingRun run = train(options, 1);
    for (const auto& memory : run.memory) {
      EXPECT_EQ(memory.bytes(MemoryTag::Parameters), row.parameters * kParameters / 2) << "stage " << row.stage;
      EXPECT_EQ(memory.bytes(MemoryTag::Gradients), row.gradients * kParameters / 2) << "stage " << row.stage;
      EXPECT_EQ(memory.bytes(MemoryTag::Optimizer), row.optimizer * kParameters / 2) << "stage " << row.stage;
      EXPECT_EQ(memory.bytes(MemoryTag::Activations), 0u) << "stage " << row.stage;
      EXPECT_EQ(memory.bytes(MemoryTag::Workspace), 0u) << "stage " << row.stage;
    }
  }
}

// A parameter takes 2 bytes of working weights, 4 of gradients, and 12 of master weights and moments.
TEST(Accounting, ModelStateInMixedPrecisionIsWhatTheFormulasOfZeroSay) {
  struct Row {
    int stage;
    std::uint64_t parameters, gradients, optimizer;  // bytes a parameter, times 2
  };
  for (const Row& row : {Row{0, 4, 8, 24}, Row{1, 4, 8, 12}, Row{2, 4, 4, 12}, Row{3, 2, 4, 12}}) {
    SCOPED_TRACE(row.stage);
    TrainOptions options = options_of({.dp = 2});
    options.precision = "bfloat16";
    options.zero_stage = row.stage;
    const TrainingRun run = train(options, 1);
    for (const auto& memory : run.memory) {
      EXPECT_EQ(memory.bytes(MemoryTag::Parameters), row.parameters * kParameters / 2);
      EXPECT_EQ(memory.bytes(MemoryTag::Gradients), row.gradients * kParameters / 2);
      EXPECT_EQ(memory.bytes(MemoryTag::Optimizer), row.optimizer * kParameters / 2);
      for (const MemoryTag tag :
           {MemoryTag::Gathered, MemoryTag::Buckets, MemoryTag::Activations, MemoryTag::Workspace}) {
        EXPECT_EQ(memory.bytes(tag), 0u) << name(tag);
      }
    }
  }
}

}  // namespace
}  // namespace wreath::gpt::test::accounting
