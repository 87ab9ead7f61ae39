// Meshes, sizes and options drawn at random, each beside one rank.
#include <gtest/gtest.h>

#include "tests/support/processes.hpp"
#include "tests/training/meshes/draws.hpp"

namespace wreath::gpt::test {
namespace {

constexpr std::int64_t kSteps = 4;
constexpr double kLossBound = 1e-6;
constexpr double kGradientBound = 2e-5;

TEST(RandomMeshes, FollowOneRank) {
  const int draws = testing_support::kSanitized ? 4 : testing_support::rounds(40, 200);
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(draws); ++seed) {
    const TrainOptions options = draw_options(seed);
    SCOPED_TRACE("draw " + std::to_string(seed) + ": " + describe(options));
    TrainOptions alone = options;
    alone.mesh = {};
    alone.zero_stage = 0;
    alone.schedule = "1f1b";
    alone.chunks = 1;
    alone.sequence_parallel = false;
    alone.recompute = false;
    alone.context_attention = "ring";
    alone.micro_batches = 1;
    const TrainingRun expected = train(alone, kSteps);
    const TrainingRun run = train(options, kSteps);
    EXPECT_LE(largest_difference(expected.losses, run.losses), kLossBound);
    EXPECT_LE(largest_difference(expected.first_gradients, run.first_gradients), kGradientBound);
  }
}

}  // namespace
}  // namespace wreath::gpt::test
