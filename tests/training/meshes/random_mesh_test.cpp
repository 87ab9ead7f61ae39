// Runs with meshes, sizes and options drawn at random are compared with a run of one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tests/support/processes.hpp"
#include "tests/training/meshes/draws.hpp"

namespace wreath::gpt::test::random_meshes {
namespace {

constexpr std::int64_t kSteps = 4;
constexpr double kLossBound = 1e-6;
constexpr double kGradientBound = 2e-5;

TEST(RandomMeshes, FollowOneRank) {
  double worst_loss = 0;
  double worst_gradient = 0;
  const int draws = testing_support::kSanitized ? 4 : testing_support::rounds(20, 200);
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
    const double loss = largest_difference(expected.losses, run.losses);
    const double gradient = largest_difference(expected.first_gradients, run.first_gradients);
    EXPECT_LE(loss, kLossBound);
    EXPECT_LE(gradient, kGradientBound);
    std::printf("draw %3llu: loss %.1e  first gradients %.1e  %s\n", static_cast<unsigned long long>(seed), loss,
                gradient, describe(options).c_str());
    worst_loss = std::max(worst_loss, loss);
    worst_gradient = std::max(worst_gradient, gradient);
  }
  std::printf("%d draws: loss at most %.1e (bound %.0e), first gradients %.1e (bound %.0e)\n", draws, worst_loss,
              kLossBound, worst_gradient, kGradientBound);
}

}  // namespace
}  // namespace wreath::gpt::test::random_meshes
