// A rank that fails in the last call of a step can do the step by itself, with the bits of the ranks that did it.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/local_ranks.hpp"
#include "tests/training/meshes/runs.hpp"
#include "training/elastic/state.hpp"

namespace wreath::gpt::test {
namespace {

constexpr std::int64_t kTorn = 2;

std::unique_ptr<Trainer> trainer_of(Communicator& world, const TrainOptions& options) {
  const std::shared_ptr<Communicator> shared(&world, [](Communicator*) {});
  return Trainer::create(shared, options, small_text()).value();
}

// Trains until the step kTorn is done, or until this rank fails in it.
void train_through_torn_step(Trainer& trainer) {
  try {
    while (trainer.steps_done() <= kTorn) trainer.step();
  } catch (const Exception&) {
  }
}

[[noreturn]] void fail() { throw Exception({ErrorCode::PeerLost, "the test ends this rank's step"}); }

// Takes part in the last call, so that the other ranks do the step, and then fails.
void fail_in_last_call(std::int64_t step, training::Group& world) {
  if (step != kTorn) return;
  std::array<double, 2> share{};
  world.all_reduce(std::span<double>(share));
  fail();
}

struct State {
  std::vector<float> values;
  std::int64_t steps = 0;
  std::int64_t optimizer_steps = 0;
  std::map<std::string, std::string> text;
  bool operator==(const State&) const = default;
};

State state_of(Trainer& trainer) {
  return {training::copy_of({trainer.strategy().pieces(), trainer.optimizer().moments()}), trainer.steps_done(),
          trainer.optimizer().steps(), trainer.state_text()};
}

void expect_completed(TrainOptions options) {
  options.mesh = {.dp = 2, .tp = 2};
  std::array<State, 4> states;
  wreath::test::LocalRanks ranks(4, {});
  ranks.run([&](Communicator& world) {
    const bool fails = world.rank() == 2;
    TrainOptions mine = options;
    if (fails) mine.before_last_call = fail_in_last_call;
    const std::unique_ptr<Trainer> trainer = trainer_of(world, mine);
    train_through_torn_step(*trainer);
    EXPECT_EQ(trainer->steps_done(), fails ? kTorn : kTorn + 1);
    EXPECT_EQ(trainer->can_complete_step(), fails);
    if (trainer->can_complete_step()) trainer->complete_step();
    EXPECT_FALSE(trainer->can_complete_step());
    states[static_cast<std::size_t>(world.rank())] = state_of(*trainer);
  });
  EXPECT_EQ(states[2], states[0]);
  EXPECT_EQ(states[3], states[1]);
  EXPECT_NE(states[2], states[3]) << "these ranks hold other parts";
}

TEST(TornStep, IsCompletedWithTheBitsOfTheOtherRanks) { expect_completed(small_options()); }

TEST(TornStep, IsCompletedWithItsLossScale) {
  TrainOptions options = small_options();
  options.precision = "float16";
  expect_completed(options);
}

// Rank 1 of two data-parallel ranks fails in the step kTorn. Returns whether it can complete it.
bool can_complete(TrainOptions options, const Trainer::GradientObserver& observer) {
  options.mesh = {.dp = 2};
  bool can = true;
  wreath::test::LocalRanks ranks(2, {});
  ranks.run([&](Communicator& world) {
    TrainOptions mine = options;
    if (world.rank() == 1 && !observer) mine.before_last_call = fail_in_last_call;
    const std::unique_ptr<Trainer> trainer = trainer_of(world, mine);
    if (world.rank() == 1 && observer) {
      trainer->observe_gradients([&, steps = trainer.get()](std::span<const training::Piece> pieces) {
        if (steps->steps_done() == kTorn) observer(pieces);
      });
    }
    train_through_torn_step(*trainer);
    trainer->abort();
    if (world.rank() == 1) can = trainer->can_complete_step();
  });
  return can;
}

TEST(TornStep, IsNotCompletedBeforeItsGradientsAreMeasured) {
  EXPECT_FALSE(can_complete(small_options(), [](std::span<const training::Piece>) { fail(); }));
  EXPECT_TRUE(can_complete(small_options(), {}));
}

TEST(TornStep, IsNotCompletedWhereRanksShareTheOptimizer) {
  TrainOptions options = small_options();
  options.zero_stage = 1;
  EXPECT_FALSE(can_complete(options, {}));
}

}  // namespace
}  // namespace wreath::gpt::test
