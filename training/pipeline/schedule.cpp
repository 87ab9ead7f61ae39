// This file builds the schedules and holds their table.
#include "training/pipeline/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace wreath::training {

namespace {

constexpr std::int64_t kMostUnits = std::int64_t{1} << 24;

PipelineSchedule empty_schedule(std::string_view name, const PipelineShape& shape) {
  PipelineSchedule schedule{std::string(name), shape.ranks, shape.chunks_per_rank, shape.micro_batches, {}};
  schedule.actions.resize(static_cast<std::size_t>(shape.ranks));
  return schedule;
}

Status check_one_chunk(std::string_view name, const PipelineShape& shape) {
  if (shape.chunks_per_rank == 1) return {};
  return invalid(fmt::format("pipeline schedule {} has 1 chunk per rank, not {}", name, shape.chunks_per_rank));
}

Result<PipelineSchedule> gpipe(const PipelineShape& shape) {
  WREATH_TRY(check_one_chunk("gpipe", shape));
  PipelineSchedule schedule = empty_schedule("gpipe", shape);
  for (std::vector<Action>& actions : schedule.actions) {
    for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({ActionKind::Forward, 0, i});
    for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({ActionKind::Backward, 0, i});
  }
  return schedule;
}

// Returns `warm_up` forwards, then one forward and one backward in turns, then the remaining backwards.
std::vector<Action> one_by_one(std::size_t warm_up, const std::vector<Action>& forward,
                               const std::vector<Action>& backward) {
  warm_up = std::min(warm_up, forward.size());
  std::vector<Action> actions(forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (warm_up + i < forward.size()) actions.push_back(forward[warm_up + i]);
    actions.push_back(backward[i]);
  }
  return actions;
}

Result<PipelineSchedule> one_forward_one_backward(const PipelineShape& shape) {
  WREATH_TRY(check_one_chunk("1f1b", shape));
  PipelineSchedule schedule = empty_schedule("1f1b", shape);
  std::vector<Action> forward, backward;
  for (int i = 0; i < shape.micro_batches; ++i) {
    forward.push_back({ActionKind::Forward, 0, i});
    backward.push_back({ActionKind::Backward, 0, i});
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    schedule.actions[static_cast<std::size_t>(rank)] =
        one_by_one(static_cast<std::size_t>(shape.ranks - rank - 1), forward, backward);
  }
  return schedule;
}

// Sends micro-batches through all chunks in groups of as many as there are ranks. A smaller last group deadlocks: a
// rank waits for a gradient while the micro-batch that it would send next is awaited. The last group is therefore
// filled up. The added micro-batches are then removed from every rank's actions, which leaves queues in order.
Result<PipelineSchedule> interleaved(const PipelineShape& shape) {
  const int chunks = shape.chunks_per_rank;
  if (chunks < 2) return invalid("pipeline schedule interleaved has at least 2 chunks per rank, not 1: use 1f1b");
  const int filled_up = (shape.micro_batches + shape.ranks - 1) / shape.ranks * shape.ranks;
  WREATH_TRY(check_shape({shape.ranks, chunks, filled_up}));
  PipelineSchedule schedule = empty_schedule("interleaved", shape);
  std::vector<Action> forward, backward;
  for (int first = 0; first < filled_up; first += shape.ranks) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = first; i < first + shape.ranks; ++i) {
        forward.push_back({ActionKind::Forward, chunk, i});
        backward.push_back({ActionKind::Backward, chunks - 1 - chunk, i});
      }
    }
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int warm_up = 2 * (shape.ranks - rank - 1) + (chunks - 1) * shape.ranks;
    std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(rank)];
    actions = one_by_one(static_cast<std::size_t>(warm_up), forward, backward);
    std::erase_if(actions, [&](const Action& action) { return action.micro_batch >= shape.micro_batches; });
  }
  return schedule;
}

Result<PipelineSchedule> zero_bubble_h1(const PipelineShape& shape) {
  WREATH_TRY(check_one_chunk("zb_h1", shape));
  PipelineSchedule schedule = empty_schedule("zb_h1", shape);
  const int count = shape.micro_batches;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(rank)];
    int forward = 0;
    int weights = 0;
    while (forward < std::min(count, shape.ranks - rank)) actions.push_back({ActionKind::Forward, 0, forward++});
    for (int i = 0; i < count; ++i) {
      actions.push_back({ActionKind::BackwardInput, 0, i});
      if (i >= rank) actions.push_back({ActionKind::BackwardWeights, 0, weights++});
      if (forward < count) actions.push_back({ActionKind::Forward, 0, forward++});
    }
    while (weights < count) actions.push_back({ActionKind::BackwardWeights, 0, weights++});
  }
  return schedule;
}

constexpr ScheduleBuilder kBuilders[] = {
    {"gpipe", gpipe},
    {"1f1b", one_forward_one_backward},
    {"interleaved", interleaved},
    {"zb_h1", zero_bubble_h1},
};

}  // namespace

Status check_shape(const PipelineShape& shape) {
  const auto units = [&](std::int64_t most) {
    most /= shape.ranks;
    return most / shape.chunks_per_rank >= shape.micro_batches;
  };
  if (shape.ranks >= 1 && shape.chunks_per_rank >= 1 && shape.micro_batches >= 1 && units(kMostUnits)) return {};
  return invalid(
      fmt::format("a pipeline of {} ranks, {} chunks per rank, {} micro-batches: each is at least 1, and "
                  "their product at most {}",
                  shape.ranks, shape.chunks_per_rank, shape.micro_batches, kMostUnits));
}

std::span<const ScheduleBuilder> schedule_builders() noexcept { return kBuilders; }

Result<PipelineSchedule> make_schedule(std::string_view name, const PipelineShape& shape) {
  WREATH_TRY(check_shape(shape));
  std::string names;
  for (const ScheduleBuilder& builder : kBuilders) {
    if (builder.name == name) return builder.build(shape);
    names += (names.empty() ? "" : ", ") + std::string(builder.name);
  }
  return invalid(fmt::format("pipeline schedule '{}' is none of {}", name, names));
}

}  // namespace wreath::training
