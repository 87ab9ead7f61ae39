// Every mesh has the same loss curve. This file takes twelve and more of them; all_meshes_test.cpp takes every one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/support/processes.hpp"
#include "tests/training/parity/reference.hpp"

namespace wreath::gpt::test::curves {
namespace {

// A sanitizer checks the code that runs; the end of the curve does not matter to it.
constexpr bool kCurve = !testing_support::kSanitized;
std::int64_t curve_steps() { return kCurve ? testing_support::rounds(100, 300) : 6; }

struct MeshCase {
  const char* name;
  void (*set)(TrainOptions& options);
};

std::ostream& operator<<(std::ostream& out, const MeshCase& mesh) { return out << mesh.name; }

constexpr MeshCase kMeshes[] = {
    {"dp2", [](TrainOptions& o) { o.mesh = {.dp = 2}; }},
    {"dp4_zero1",
     [](TrainOptions& o) {
       o.mesh = {.dp = 4};
       o.zero_stage = 1;
     }},
    {"dp2_zero2",
     [](TrainOptions& o) {
       o.mesh = {.dp = 2};
       o.zero_stage = 2;
     }},
    {"dp4_zero3",
     [](TrainOptions& o) {
       o.mesh = {.dp = 4};
       o.zero_stage = 3;
     }},
    {"tp2", [](TrainOptions& o) { o.mesh = {.tp = 2}; }},
    {"tp4_sequence",
     [](TrainOptions& o) {
       o.mesh = {.tp = 4};
       o.sequence_parallel = true;
     }},
    {"pp2_gpipe",
     [](TrainOptions& o) {
       o.mesh = {.pp = 2};
       o.schedule = "gpipe";
       o.micro_batches = 4;
     }},
    {"pp4_1f1b",
     [](TrainOptions& o) {
       o.mesh = {.pp = 4};
       o.micro_batches = 8;
     }},
    {"pp2_interleaved",
     [](TrainOptions& o) {
       o.mesh = {.pp = 2};
       o.schedule = "interleaved";
       o.chunks = 2;
       o.micro_batches = 4;
     }},
    {"pp2_zb_h1",
     [](TrainOptions& o) {
       o.mesh = {.pp = 2};
       o.schedule = "zb_h1";
       o.micro_batches = 4;
     }},
    {"cp2_ring", [](TrainOptions& o) { o.mesh = {.cp = 2}; }},
    {"cp4_ulysses",
     [](TrainOptions& o) {
       o.mesh = {.cp = 4};
       o.context_attention = "ulysses";
     }},
    {"dp2_tp2_zero1",
     [](TrainOptions& o) {
       o.mesh = {.dp = 2, .tp = 2};
       o.zero_stage = 1;
     }},
    {"dp2_pp2_tp2_sequence_zero2",
     [](TrainOptions& o) {
       o.mesh = {.dp = 2, .pp = 2, .tp = 2};
       o.sequence_parallel = true;
       o.zero_stage = 2;
       o.micro_batches = 2;
     }},
    {"dp2_cp2_tp2_zero3",
     [](TrainOptions& o) {
       o.mesh = {.dp = 2, .cp = 2, .tp = 2};
       o.zero_stage = 3;
     }},
    {"pp2_cp2_tp2",
     [](TrainOptions& o) {
       o.mesh = {.pp = 2, .cp = 2, .tp = 2};
       o.micro_batches = 2;
     }},
};

const TrainingRun& one_rank() {
  static const TrainingRun run = train(small_options(), curve_steps());
  return run;
}

double spread() {
  static const double largest = spread_around(one_rank(), small_options());
  return largest;
}

double loss_bound() { return kCurve ? std::max(kLossBound, 3 * spread()) : kLossBound; }

class Parity : public testing::TestWithParam<MeshCase> {};

TEST_P(Parity, FollowsTheCurveOfOneRank) {
  TrainOptions options = small_options();
  GetParam().set(options);
  const TrainingRun run = train(options, curve_steps());
  const double loss = largest_difference(one_rank().losses, run.losses);
  const double gradient = largest_difference(one_rank().first_gradients, run.first_gradients);
  const double norm = std::abs(run.gradient_norms[0] / one_rank().gradient_norms[0] - 1);
  std::printf("%-28s loss %.1e  first gradients %.1e  first norm %.1e\n", GetParam().name, loss, gradient, norm);
  EXPECT_LE(loss, loss_bound());
  EXPECT_LE(gradient, kGradientBound);
  EXPECT_LE(norm, kNormBound);
}

TEST_P(Parity, FollowsItWithPlainGradientDescent) {
  TrainOptions options = small_options();
  use_plain_descent(options);
  static const TrainingRun alone = train(options, std::min<std::int64_t>(curve_steps(), 60));
  GetParam().set(options);
  EXPECT_LE(largest_difference(alone.losses, train(options, std::min<std::int64_t>(curve_steps(), 60)).losses),
            kLossBound);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Parity, testing::ValuesIn(kMeshes),
                         [](const auto& mesh) { return std::string(mesh.param.name); });

TEST(ParityItself, LearnsAndKnowsItsSpread) {
  if (!kCurve) GTEST_SKIP() << "a sanitizer runs the first steps alone: run it in the preset dev";
  EXPECT_LT(one_rank().losses.back(), 0.8 * one_rank().losses.front());
  std::printf("spread of 8 runs with noise of one unit in the last place: %.1e; bound %.1e\n", spread(), loss_bound());
  EXPECT_LT(loss_bound(), 1e-4);
}

// The bound must show this fault and the next one.
TEST(ParityItself, SeesALayerNormThatIsNotSynchronised) {
  if (!kCurve) GTEST_SKIP() << "a sanitizer runs the first steps alone: run it in the preset dev";
  TrainOptions options = small_options();
  options.mesh = {.dp = 2};
  const TrainingRun run = train(options, curve_steps(), keep_a_layer_norm_apart);
  EXPECT_GT(largest_difference(one_rank().losses, run.losses), kFaultFactor * loss_bound());
}

TEST(ParityItself, SeesSumsInsteadOfMeans) {
  if (!kCurve) GTEST_SKIP() << "a sanitizer runs the first steps alone: run it in the preset dev";
  TrainOptions options = small_options();
  options.mesh = {.dp = 2};
  const TrainingRun run = train(options, curve_steps(), take_sums_for_means);
  EXPECT_GT(largest_difference(one_rank().losses, run.losses), kFaultFactor * loss_bound());
}

}  // namespace
}  // namespace wreath::gpt::test::curves
