// This file has closed forms of idle time.
#include "training/pipeline/bubble.hpp"

#include <array>

namespace wreath::training {

ScheduleCosts mean_costs(std::span<const Timeline> timelines) {
  std::array<std::int64_t, 4> sums{};
  std::array<std::int64_t, 4> counts{};
  for (const Timeline& timeline : timelines) {
    for (const TimedAction& timed : timeline) {
      const auto kind = static_cast<std::size_t>(timed.action.kind);
      sums[kind] += timed.end_ns - timed.start_ns;
      ++counts[kind];
    }
  }
  const auto mean = [&](ActionKind kind) {
    const auto at = static_cast<std::size_t>(kind);
    return counts[at] > 0 ? sums[at] / counts[at] : 0;
  };
  ScheduleCosts costs;
  costs.forward = mean(ActionKind::Forward);
  costs.backward_input = mean(ActionKind::BackwardInput);
  costs.backward_weights = mean(ActionKind::BackwardWeights);
  if (const std::int64_t whole = mean(ActionKind::Backward); whole > 0) {
    costs.backward_input = whole / 2;
    costs.backward_weights = whole - whole / 2;
  }
  return costs;
}

std::optional<double> paper_idle_share(const PipelineSchedule& schedule, const ScheduleCosts& costs) {
  const double waits = schedule.ranks - 1;
  const double passes = schedule.micro_batches;
  if (schedule.name == "gpipe" || schedule.name == "1f1b") return waits / (passes + waits);
  if (schedule.name == "interleaved") {
    if (schedule.micro_batches % schedule.ranks != 0) return std::nullopt;
    return waits / (passes * schedule.chunks_per_rank + waits);
  }
  if (schedule.name == "zb_h1") {
    if (schedule.micro_batches < schedule.ranks) return std::nullopt;
    const auto busy = static_cast<double>(costs.forward + costs.backward_input + costs.backward_weights);
    const auto idle = waits * static_cast<double>(costs.forward + costs.backward_input - costs.backward_weights);
    return idle / (passes * busy + idle);
  }
  return std::nullopt;
}

}  // namespace wreath::training
