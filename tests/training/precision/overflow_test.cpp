// The gradients of float16 overflow. Every rank of every axis skips the same step, and training goes on.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>

#include "tests/training/meshes/runs.hpp"
#include "training/checkpoint/checkpoint.hpp"

namespace wreath::gpt::test::overflow {
namespace {

constexpr std::int64_t kSteps = 8;
constexpr std::int64_t kBadStep = 2;

TrainOptions options_of(const std::string& precision) {
  TrainOptions options = small_options();
  options.model.layers = 2;
  options.warmup_steps = 2;
  options.decay_steps = 60;
  options.precision = precision;
  return options;
}

struct Seen {
  double scale = 0;
  std::int64_t optimizer_steps = 0;
};

// Makes one gradient of this rank infinite.
void spoil(std::span<const training::Piece> pieces) {
  const_cast<float&>(pieces.front().gradient.front()) = std::numeric_limits<float>::infinity();
}

// Returns the state before each step, by rank and then by step. The rank `bad_rank` has an infinite gradient in
// kBadStep.
std::vector<std::vector<Seen>> watch(const TrainOptions& options, int bad_rank) {
  std::vector<std::vector<Seen>> seen(static_cast<std::size_t>(options.mesh.ranks()));
  const TrainingRun run = train(options, kSteps, [&](Trainer& trainer) {
    trainer.observe_gradients([&trainer, &seen, bad_rank](std::span<const training::Piece> pieces) {
      const auto rank = static_cast<std::size_t>(trainer.mesh().rank());
      seen[rank].push_back({trainer.scaler()->scale(), trainer.optimizer().steps()});
      if (trainer.mesh().rank() == bad_rank && trainer.steps_done() == kBadStep) spoil(pieces);
    });
  });
  for (const double loss : run.losses) EXPECT_TRUE(std::isfinite(loss));
  for (const auto& [name, values] : run.weights) {
    for (const float value : values) EXPECT_TRUE(std::isfinite(value)) << name;
  }
  return seen;
}

TEST(Overflow, OnOneRankOfAnyAxisSkipsTheStepOnAll) {
  struct Row {
    training::MeshShape mesh;
    int zero_stage;
  };
  for (const Row& row : {Row{{.dp = 2}, 0}, Row{{.dp = 2}, 1}, Row{{.dp = 2}, 3}, Row{{.tp = 2}, 0}, Row{{.pp = 2}, 0},
                         Row{{.cp = 2}, 0}, Row{{.dp = 2, .pp = 2}, 2}}) {
    TrainOptions options = options_of("float16");
    options.mesh = row.mesh;
    options.zero_stage = row.zero_stage;
    SCOPED_TRACE(name(row.mesh) + " zero " + std::to_string(row.zero_stage));
    for (const std::vector<Seen>& rank : watch(options, row.mesh.ranks() - 1)) {
      ASSERT_EQ(rank.size(), static_cast<std::size_t>(kSteps));
      for (std::int64_t step = 0; step < kSteps; ++step) {
        const Seen& at = rank[static_cast<std::size_t>(step)];
        EXPECT_EQ(at.scale, step <= kBadStep ? 65536 : 32768) << "step " << step;
        EXPECT_EQ(at.optimizer_steps, step <= kBadStep ? step : step - 1) << "step " << step;
      }
    }
  }
}

// Gradients really overflow, in float16 messages and in the layers.
TEST(Overflow, OfAScaleThatIsTooHighFindsOneThatFits) {
  TrainOptions options = options_of("float16");
  options.mesh = {.dp = 2, .tp = 2};
  options.loss_scale = 0x1p30f;
  double scale = 0;
  std::int64_t skipped = 0;
  const TrainingRun run = train(options, 40, [&](Trainer& trainer) {
    if (trainer.mesh().rank() != 0) return;
    trainer.observe_gradients([&](std::span<const training::Piece>) {
      scale = trainer.scaler()->scale();
      skipped = trainer.scaler()->skipped();
    });
  });
  EXPECT_GT(skipped, 3);
  EXPECT_LT(skipped, 20);
  EXPECT_EQ(scale, std::ldexp(1.0, 30 - static_cast<int>(skipped)));
  EXPECT_LT(run.losses.back(), 0.95 * run.losses.front());
}

// Gradients are divided by the scale again, so a step of plain descent is as long as that of float32.
TEST(Overflow, LeavesTheLengthOfAStepAlone) {
  TrainOptions options = options_of("float32");
  options.optimizer = OptimizerKind::Sgd;
  options.clip = 0;
  options.learning_rate = options.lowest_learning_rate = 0.1f;
  const TrainingRun expected = train(options, kSteps);
  options.precision = "float16";
  const TrainingRun run = train(options, kSteps);
  EXPECT_LT(largest_difference(expected.losses, run.losses), 1e-4);
  EXPECT_LT(largest_difference(expected.gradient_norms, run.gradient_norms), 5e-3);
}

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "/precision-XXXXXX") { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

training::Shard shard_of(Trainer& trainer) { return {trainer.strategy().pieces(), trainer.optimizer().moments()}; }

void save(Trainer& trainer, Communicator& world, const std::string& folder) {
  auto saver = training::Checkpointer::create(world, folder, shard_of(trainer), trainer.memory()).value();
  training::TrainingState state;
  state.step = trainer.steps_done();
  state.optimizer_steps = trainer.optimizer().steps();
  state.text = trainer.state_text();
  ASSERT_TRUE(saver->save(state, shard_of(trainer)));
  ASSERT_TRUE(saver->wait());
}

void load(Trainer& trainer, Communicator& world, const std::string& folder) {
  const std::string latest = training::latest_checkpoint(folder).value().value();
  const training::TrainingState state = training::load_checkpoint(world, latest, shard_of(trainer)).value();
  ASSERT_TRUE(trainer.restore_text(state.text));
  trainer.resume_at(state.step, state.optimizer_steps);
}

// A checkpoint gives back master weights, moments and the loss scale. The curve then goes on with the same bits.
TEST(Overflow, BeforeACheckpointIsRememberedByIt) {
  for (const char* precision : {"bfloat16", "float16"}) {
    SCOPED_TRACE(precision);
    const Folder folder;
    const auto world = std::make_shared<Communicator>();
    const auto make = [&] { return Trainer::create(world, options_of(precision), small_text()).value(); };
    const auto trainer = make();
    trainer->observe_gradients([&trainer](std::span<const training::Piece> pieces) {
      if (trainer->steps_done() == kBadStep && trainer->scaler() != nullptr) spoil(pieces);
    });
    for (int i = 0; i < 4; ++i) trainer->step();
    save(*trainer, *world, folder.path());
    const auto resumed = make();
    load(*resumed, *world, folder.path());
    if (trainer->scaler() != nullptr) {
      EXPECT_EQ(resumed->scaler()->scale(), 32768);
      EXPECT_EQ(resumed->scaler()->skipped(), 1);
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(trainer->step().loss, resumed->step().loss);
  }
}

}  // namespace
}  // namespace wreath::gpt::test::overflow
