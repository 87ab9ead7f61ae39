// This file first checks the actions of each rank alone, and then runs all ranks together.
#include "training/pipeline/verify.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "training/pipeline/walk.hpp"

namespace wreath::training {

namespace {

// Counts micro-batches in flight, and their highest number.
struct Count {
  int now = 0;
  int most = 0;
  void add() { most = std::max(most, ++now); }
  void remove() { --now; }
};

// Checks that each action of one rank is in a possible place, and that none is missing.
class RankCheck {
 public:
  RankCheck(const PipelineSchedule& schedule, int rank)
      : schedule_(schedule),
        rank_(rank),
        progress_(index(schedule.chunks_per_rank) * index(schedule.micro_batches), Progress::None),
        next_weights_(index(schedule.chunks_per_rank), 0) {}

  Status run() {
    const std::vector<Action>& actions = schedule_.actions[index(rank_)];
    for (std::size_t i = 0; i < actions.size(); ++i) WREATH_TRY(check(actions[i], i));
    for (std::size_t i = 0; i < progress_.size(); ++i) {
      if (progress_[i] == Progress::Weights) continue;
      constexpr std::string_view kMissing[] = {"forward", "backward", "backward by weights"};
      const std::size_t micro_batches = index(schedule_.micro_batches);
      return invalid(fmt::format("pipeline schedule {}: rank {} never runs the {} of chunk {}, micro-batch {}",
                                 schedule_.name, rank_, kMissing[static_cast<std::size_t>(progress_[i])],
                                 i / micro_batches, i % micro_batches));
    }
    return {};
  }
  int in_flight() const { return whole_.most; }
  int in_flight_inputs() const { return inputs_.most; }

 private:
  enum class Progress : std::uint8_t { None, Forward, Input, Weights };

  Error wrong(std::size_t position, std::string reason) const {
    return invalid(action_text(schedule_, rank_, position) + reason);
  }

  Status check(const Action& action, std::size_t position) {
    if (action.chunk < 0 || action.chunk >= schedule_.chunks_per_rank) {
      return wrong(position, fmt::format("there are {} chunks per rank", schedule_.chunks_per_rank));
    }
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches) {
      return wrong(position, fmt::format("there are {} micro-batches", schedule_.micro_batches));
    }
    Progress& progress = progress_[index(action.chunk) * index(schedule_.micro_batches) + index(action.micro_batch)];
    const Progress before = needed(action.kind);
    if (progress > before) return wrong(position, "it has run before");
    if (progress < before) return wrong(position, before == Progress::Forward ? "before its forward" : "before its I");
    return advance(action, progress, position);
  }

  static Progress needed(ActionKind kind) {
    if (kind == ActionKind::Forward) return Progress::None;
    return kind == ActionKind::BackwardWeights ? Progress::Input : Progress::Forward;
  }

  Status advance(const Action& action, Progress& progress, std::size_t position) {
    if (action.kind == ActionKind::Forward) {
      whole_.add();
      inputs_.add();
      progress = Progress::Forward;
      return {};
    }
    if (action.kind != ActionKind::BackwardWeights) inputs_.remove();
    progress = Progress::Input;
    if (action.kind == ActionKind::BackwardInput) return {};
    int& next = next_weights_[index(action.chunk)];
    if (action.micro_batch != next) {
      return wrong(position, fmt::format("the weights' part of micro-batch {} comes first: gradients are added in the "
                                         "order of micro-batches",
                                         next));
    }
    ++next;
    whole_.remove();
    progress = Progress::Weights;
    return {};
  }

  const PipelineSchedule& schedule_;
  int rank_;
  std::vector<Progress> progress_;  // of each chunk and micro-batch
  std::vector<int> next_weights_;   // of each chunk
  Count whole_, inputs_;
};

Status check_frame(const PipelineSchedule& schedule) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (schedule.name.empty() || !std::all_of(schedule.name.begin(), schedule.name.end(), allowed)) {
    return invalid("the name of a pipeline schedule is of small letters, digits and underscores");
  }
  WREATH_TRY(check_shape({schedule.ranks, schedule.chunks_per_rank, schedule.micro_batches}));
  if (schedule.actions.size() != index(schedule.ranks)) {
    return invalid(fmt::format("pipeline schedule {}: actions of {} ranks, of {}", schedule.name,
                               schedule.actions.size(), schedule.ranks));
  }
  return {};
}

Result<ScheduleProof> check_ranks(const PipelineSchedule& schedule) {
  WREATH_TRY(check_frame(schedule));
  ScheduleProof proof;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    RankCheck check(schedule, rank);
    WREATH_TRY(check.run());
    proof.in_flight.push_back(check.in_flight());
    proof.in_flight_inputs.push_back(check.in_flight_inputs());
  }
  return proof;
}

}  // namespace

Result<ScheduleProof> verify(const PipelineSchedule& schedule) {
  Result<ScheduleProof> proof = check_ranks(schedule);
  if (!proof) return proof;
  WREATH_TRY(ScheduleWalk(schedule, {}).run());
  return proof;
}

Result<SimulatedPipeline> simulate(const PipelineSchedule& schedule, const ScheduleCosts& costs) {
  if (std::min({costs.forward, costs.backward_input, costs.backward_weights, costs.send}) < 0) {
    return invalid("a cost of a pipeline schedule is negative");
  }
  if (const Result<ScheduleProof> proof = check_ranks(schedule); !proof) return proof.error();
  ScheduleWalk walk(schedule, costs);
  WREATH_TRY(walk.run());
  SimulatedPipeline simulated;
  simulated.timelines = walk.timelines();
  for (const Timeline& timeline : simulated.timelines) {
    simulated.makespan = std::max(simulated.makespan, timeline.back().end_ns);
  }
  simulated.idle_shares = idle_shares(simulated.timelines);
  for (const double share : simulated.idle_shares) simulated.idle_share += share / schedule.ranks;
  return simulated;
}

}  // namespace wreath::training
