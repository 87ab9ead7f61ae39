// Validation and samples use the whole model, without dropout.
#include <gtest/gtest.h>

#include <string>

#include "tests/training/meshes/runs.hpp"

namespace wreath::gpt::test::validation {
namespace {

struct Seen {
  double validation_loss = 0;
  std::string sample;
};

// Returns what a model of the first weights gives on rank 0 of the mesh.
Seen seen(float dropout, const training::MeshShape& mesh) {
  TrainOptions options = small_options();
  options.model.dropout = dropout;
  options.mesh = mesh;
  Seen result;
  train(options, 0, [&](Trainer& trainer) {
    const double validation_loss = trainer.validation_loss(20);
    const std::string sample = trainer.sample("A", 8, 0.8f);
    if (trainer.mesh().world().rank() == 0) result = {validation_loss, sample};
  });
  return result;
}

TEST(Validation, DropsNothing) {
  const Seen whole = seen(0, {});
  const Seen half = seen(0.5f, {});
  EXPECT_EQ(half.validation_loss, whole.validation_loss);
  EXPECT_EQ(half.sample, whole.sample);
}

TEST(Validation, IsTheSameOnEveryMesh) {
  const double one_rank = seen(0.5f, {}).validation_loss;
  EXPECT_NEAR(seen(0.5f, {.dp = 2, .pp = 2}).validation_loss, one_rank, 1e-6 * one_rank);
  EXPECT_NEAR(seen(0.5f, {.cp = 2, .tp = 2}).validation_loss, one_rank, 1e-6 * one_rank);
}

}  // namespace
}  // namespace wreath::gpt::test::validation
