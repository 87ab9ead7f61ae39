// Training in mixed precision on meshes is compared with float32 on one rank.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/processes.hpp"
#include "tests/training/meshes/runs.hpp"
#include "training/precision/precision.hpp"

namespace wreath::gpt::test::precision {
namespace {

// A sanitizer checks the code that runs; the end of the curve does not matter to it.
constexpr bool kWholeCurve = !testing_support::kSanitized;
constexpr std::int64_t kWholeSteps = 60;
constexpr std::int64_t kSteps = kWholeCurve ? kWholeSteps : 4;

TrainOptions options_of(const std::string& precision) {
  TrainOptions options = small_options();
  options.model.layers = 2;
  options.warmup_steps = 5;
  options.decay_steps = kWholeSteps;
  options.learning_rate = 3e-3f;
  options.precision = precision;
  return options;
}

const std::vector<double>& float32_losses() {
  static const std::vector<double> losses = train(options_of("float32"), kSteps).losses;
  return losses;
}

double distance(const std::vector<double>& losses) { return largest_difference(float32_losses(), losses); }

TrainOptions on_mesh(TrainOptions options, const char* name) {
  const std::string mesh = name;
  if (mesh.starts_with("dp2")) options.mesh.dp = 2;
  if (mesh.find("tp2") != std::string::npos) options.mesh.tp = 2;
  if (mesh.find("pp2") != std::string::npos) options.mesh.pp = 2;
  if (mesh.find("cp2") != std::string::npos) options.mesh.cp = 2;
  if (options.mesh.pp > 1) options.micro_batches = 2;
  options.sequence_parallel = mesh.find("rows") != std::string::npos;
  if (mesh.find("zero") != std::string::npos) options.zero_stage = mesh.back() - '0';
  return options;
}

constexpr const char* kMeshes[] = {"one rank", "dp2", "tp2", "pp2", "dp2 zero3", "cp2 tp2 rows"};

// Returns all meshes for bfloat16. The other formats differ from it only in the layers of a rank, and take fewer.
std::span<const char* const> meshes_of(const std::string& precision) {
  constexpr std::size_t kLast = 3;
  return precision == "bfloat16" ? std::span<const char* const>(kMeshes) : std::span(kMeshes).last(kLast);
}

// Returns the bound for the loss. The measured differences are at most 3.3e-4 for bfloat16, 4.5e-5 for float16 and
// 9.8e-4 for fp8. Without master weights they are 3.8e-2, 1.1e-3 and 3.8e-2.
double bound(const std::string& precision) {
  if (precision == "fp8") return 3e-3;
  return precision == "float16" ? 1.5e-4 : 1e-3;
}

class Mixed : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Precisions, Mixed, testing::Values("bfloat16", "float16", "fp8"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Mixed, FollowsFloat32OnEveryMesh) {
  for (const char* mesh : meshes_of(GetParam())) {
    SCOPED_TRACE(mesh);
    const TrainingRun run = train(on_mesh(options_of(GetParam()), mesh), kSteps);
    EXPECT_LT(distance(run.losses), bound(GetParam()));
    if (!kWholeCurve) continue;
    EXPECT_GT(distance(run.losses), 1e-6) << "nothing was rounded";
    EXPECT_LT(run.losses.back(), 0.7 * run.losses.front());
  }
}

TEST_P(Mixed, HasEqualBitsInAllStagesOfZero) {
  const TrainOptions plain = on_mesh(options_of(GetParam()), "dp2");
  const TrainingRun expected = train(plain, 8);
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    TrainOptions divided = plain;
    divided.zero_stage = stage;
    const TrainingRun run = train(divided, 8);
    EXPECT_EQ(run.losses, expected.losses);
    EXPECT_EQ(run.gradient_norms, expected.gradient_norms);
    EXPECT_EQ(run.weights, expected.weights);
  }
}

TEST_P(Mixed, TakesHybridShardsAndAccumulation) {
  for (const int hybrid : {0, 2}) {
    SCOPED_TRACE(hybrid);
    TrainOptions options = options_of(GetParam());
    options.mesh.dp = 4;
    options.zero_stage = 3;
    options.hybrid_shards = hybrid;
    options.micro_batches = 2;
    constexpr std::int64_t kFirst = std::min<std::int64_t>(kSteps, 20);
    const std::vector<double> expected(float32_losses().begin(), float32_losses().begin() + kFirst);
    EXPECT_LT(largest_difference(expected, train(options, kFirst).losses), bound(GetParam()));
  }
}

DataType context_format(const Trainer& trainer) {
  return *training::half_format(*training::parse_precision(trainer.options().precision));
}

// Weights are rounded as if updates had no float32 to be added to. The bound must show it.
TEST_P(Mixed, NeedsMasterWeights) {
  if (!kWholeCurve) GTEST_SKIP() << "a sanitizer runs the first steps alone: run it in the preset dev";
  const auto round_masters = [](Trainer& trainer) {
    trainer.observe_gradients([&trainer](std::span<const training::Piece> pieces) {
      if (trainer.steps_done() == 0) return;
      for (const training::Piece& piece : pieces) {
        training::round_to(context_format(trainer), piece.value, piece.value);
      }
    });
  };
  EXPECT_GT(distance(train(options_of(GetParam()), kSteps, round_masters).losses), 5 * bound(GetParam()));
}

// Stages of a pipeline exchange only values that the format holds, and layers that run again give the same bits.
TEST_P(Mixed, HasEqualBitsWithBlocksRunAgain) {
  const TrainOptions kept = on_mesh(options_of(GetParam()), "pp2");
  TrainOptions again = kept;
  again.recompute = true;
  again.schedule = "zb_h1";
  EXPECT_EQ(train(kept, 8).losses, train(again, 8).losses);
}

}  // namespace
}  // namespace wreath::gpt::test::precision
