// Schedules are edited at random: what verify() refuses does go wrong, and what it accepts does not. The judge is an
// independent run, rank by rank in random order, which does not use verify().
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "tests/training/pipeline/fake_pipeline.hpp"
#include "training/pipeline/verify.hpp"

namespace wreath::training::mutants {
namespace {

using Random = std::mt19937;

int below(Random& random, int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); }

std::size_t index(int value) { return static_cast<std::size_t>(value); }

// Runs a schedule. A message only names its content: a stage's output or gradient of a micro-batch. A rank takes the
// message that comes first, and fails if it needs another one.
class Judge {
 public:
  Judge(const PipelineSchedule& schedule, unsigned seed) : schedule_(schedule), random_(seed) {}

  bool good() {
    std::vector<std::size_t> at(schedule_.actions.size(), 0);
    while (true) {
      std::vector<int> able;
      for (int rank = 0; rank < schedule_.ranks; ++rank) {
        if (at[index(rank)] == schedule_.actions[index(rank)].size()) continue;
        if (ready(rank, schedule_.actions[index(rank)][at[index(rank)]])) able.push_back(rank);
      }
      if (able.empty()) break;
      const int rank = able[index(below(random_, static_cast<int>(able.size())))];
      if (!run(rank, schedule_.actions[index(rank)][at[index(rank)]++])) return false;
    }
    const std::size_t units = index(schedule_.stages()) * index(schedule_.micro_batches);
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      if (at[index(rank)] != schedule_.actions[index(rank)].size()) return false;
    }
    return forward_.size() == units && input_.size() == units && weights_.size() == units;
  }

 private:
  using Unit = std::pair<int, int>;  // stage, micro-batch
  // The place of messages: gradient or not, from rank, to rank. A single rank has one place for each unit.
  using Place = std::tuple<bool, int, int>;

  // Returns whether there is a stage on the side from which the output or gradient comes.
  bool needs(int stage, bool gradient) const { return gradient ? stage + 1 < schedule_.stages() : stage > 0; }

  std::deque<Unit>& queue(bool gradient, int from_stage, int to_stage, int micro_batch) {
    const int p = schedule_.ranks;
    if (p == 1) return alone_[{gradient, from_stage, micro_batch}];
    return queues_[{gradient, from_stage % p, to_stage % p}];
  }

  bool ready(int rank, const Action& action) {
    if (action.kind == ActionKind::BackwardWeights) return true;
    const int stage = action.chunk * schedule_.ranks + rank;
    const bool gradient = action.kind != ActionKind::Forward;
    if (action.chunk >= schedule_.chunks_per_rank || !needs(stage, gradient)) return true;
    return !queue(gradient, gradient ? stage + 1 : stage - 1, stage, action.micro_batch).empty();
  }

  bool run(int rank, const Action& action) {
    if (action.chunk < 0 || action.chunk >= schedule_.chunks_per_rank) return false;
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches) return false;
    const int stage = action.chunk * schedule_.ranks + rank;
    const Unit unit{stage, action.micro_batch};
    if (action.kind == ActionKind::BackwardWeights) return weights(unit);
    const bool gradient = action.kind != ActionKind::Forward;
    if (needs(stage, gradient)) {
      const int from = gradient ? stage + 1 : stage - 1;
      std::deque<Unit>& messages = queue(gradient, from, stage, action.micro_batch);
      if (messages.front() != Unit{from, action.micro_batch}) return false;
      messages.pop_front();
    }
    if (gradient && !forward_.contains(unit)) return false;
    if (!(gradient ? input_ : forward_).insert(unit).second) return false;
    // A neighbour on that side waits for the message.
    if (needs(stage, !gradient)) {
      queue(gradient, stage, gradient ? stage - 1 : stage + 1, action.micro_batch).push_back(unit);
    }
    return action.kind != ActionKind::Backward || weights(unit);
  }

  bool weights(const Unit& unit) {
    if (!input_.contains(unit)) return false;
    if (unit.second > 0 && !weights_.contains({unit.first, unit.second - 1})) return false;
    return weights_.insert(unit).second;
  }

  const PipelineSchedule& schedule_;
  Random random_;
  std::set<Unit> forward_, input_, weights_;
  std::map<Place, std::deque<Unit>> queues_, alone_;
};

// Makes one edit: two actions change places, or one is removed, repeated, moved or changed.
std::string mutate(PipelineSchedule& schedule, Random& random) {
  std::vector<Action>& actions = schedule.actions[index(below(random, schedule.ranks))];
  if (actions.empty()) return "none";
  const auto at = [&] { return actions.begin() + below(random, static_cast<int>(actions.size())); };
  switch (below(random, 7)) {
    case 0: std::iter_swap(at(), at()); return "swap";
    case 1: {
      const auto one = actions.begin() + below(random, std::max(1, static_cast<int>(actions.size()) - 1));
      if (one + 1 != actions.end()) std::iter_swap(one, one + 1);
      return "swap of neighbours";
    }
    case 2: actions.erase(at()); return "loss";
    case 3: {
      const Action again = *at();
      actions.insert(at(), again);
      return "repetition";
    }
    case 4: at()->kind = static_cast<ActionKind>(below(random, 4)); return "kind";
    case 5: at()->micro_batch = below(random, schedule.micro_batches + 1); return "micro-batch";
    default: at()->chunk = below(random, schedule.chunks_per_rank + 1); return "chunk";
  }
}

PipelineSchedule random_schedule(Random& random) {
  const ScheduleBuilder& builder = schedule_builders()[index(below(random, 4))];
  const int chunks = builder.name == "interleaved" ? 2 + below(random, 2) : 1;
  return make_schedule(builder.name, {1 + below(random, 4), chunks, 1 + below(random, 6)}).value();
}

TEST(Mutants, AreCaughtOrHarmless) {
  Random random(6);
  int caught = 0;
  int changed_and_harmless = 0;
  constexpr int kMutants = 20'000;
  for (int i = 0; i < kMutants; ++i) {
    const PipelineSchedule original = random_schedule(random);
    PipelineSchedule schedule = original;
    std::string edits;
    for (int edit = 0; edit <= i % 3; ++edit) edits += mutate(schedule, random) + "; ";
    const Result<ScheduleProof> proof = verify(schedule);
    const bool good = Judge(schedule, static_cast<unsigned>(random())).good();
    ASSERT_EQ(static_cast<bool>(proof), good)
        << edits << "of\n"
        << to_text(original) << "into\n"
        << to_text(schedule) << (proof ? "which was accepted" : proof.error().message);
    caught += proof ? 0 : 1;
    changed_and_harmless += proof && schedule != original ? 1 : 0;
  }
  EXPECT_GT(caught, kMutants / 2);
  EXPECT_GT(changed_and_harmless, kMutants / 100);
  RecordProperty("caught", caught);
  RecordProperty("changed_and_harmless", changed_and_harmless);
}

// Schedules that verify() accepts run on threads and give the same bits.
TEST(Mutants, HarmlessOnesRun) {
  Random random(7);
  int runs = 0;
  while (runs < 40) {
    const PipelineSchedule original = random_schedule(random);
    PipelineSchedule schedule = original;
    for (int edit = 0; edit < 2; ++edit) mutate(schedule, random);
    if (schedule == original || !verify(schedule)) continue;
    ++runs;
    EXPECT_EQ(test::run_pipeline(schedule).weight_gradients, test::run_pipeline(original).weight_gradients)
        << to_text(schedule);
  }
}

}  // namespace
}  // namespace wreath::training::mutants
