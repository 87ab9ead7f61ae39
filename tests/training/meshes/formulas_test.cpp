// The closed forms that a report prints agree with what is counted.
#include "examples/train_gpt/run/formulas.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/processes.hpp"
#include "tests/training/meshes/draws.hpp"

namespace wreath::gpt::test::formulas {
namespace {

constexpr std::int64_t kSteps = 2;
constexpr const char* kPrecisions[] = {"float32", "bfloat16", "float16", "fp8"};

void expect_counted(TrainOptions options) {
  const TrainingRun run = train(options, kSteps);
  for (const double norm : run.gradient_norms) EXPECT_TRUE(std::isfinite(norm)) << "a step was skipped";
  options.model.vocabulary = small_text().vocabulary();
  for (int rank = 0; rank < options.mesh.ranks(); ++rank) {
    StepPayload formula = step_payload(options, training::place_of(options.mesh, rank));
    for (const auto& [key, counted] : run.traffic[static_cast<std::size_t>(rank)].all()) {
      const PayloadBounds& bounds = formula[key];
      EXPECT_TRUE(bounds.contains(counted.bytes / kSteps))
          << "rank " << rank << ", " << key.first << " " << key.second << ": " << counted.bytes / kSteps << " beside "
          << bounds.least << " .. " << bounds.most;
      formula.erase(key);
    }
    for (const auto& [key, bounds] : formula) {
      ADD_FAILURE() << "rank " << rank << ", " << key.first << " " << key.second << " was not called";
    }
  }
}

TEST(Formulas, OfRandomMeshesAreWhatIsCounted) {
  const int draws = testing_support::kSanitized ? 6 : testing_support::rounds(15, 400);
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(draws); ++seed) {
    TrainOptions options = draw_options(seed);
    options.precision = kPrecisions[seed % std::size(kPrecisions)];
    // No gradient of these runs overflows float16 with this scale. A step that is skipped would show less.
    options.loss_scale = 256;
    SCOPED_TRACE("draw " + std::to_string(seed) + ": " + describe(options) + ", " + options.precision);
    expect_counted(options);
  }
}

TEST(Formulas, OfHybridShards) {
  TrainOptions options = small_options();
  options.mesh = {.dp = 4};
  options.zero_stage = 3;
  for (const int shards : {1, 2, 4}) {
    options.hybrid_shards = shards;
    SCOPED_TRACE(shards);
    expect_counted(options);
  }
}

// Wide bounds would prove nothing.
TEST(Formulas, AreExactWhereGathersDoNotOverlap) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    TrainOptions options = draw_options(seed);
    options.model.vocabulary = small_text().vocabulary();
    if (options.zero_stage == 3 && (options.mesh.pp > 1 || options.chunks > 1 || options.schedule != "1f1b")) continue;
    for (const auto& [key, bounds] : step_payload(options, {})) EXPECT_TRUE(bounds.exact()) << describe(options);
  }
}

}  // namespace
}  // namespace wreath::gpt::test::formulas
