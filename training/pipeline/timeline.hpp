// This file declares timelines of a pipeline, measured or computed, and their idle shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "training/pipeline/schedule.hpp"

namespace wreath::training {

struct TimedAction {
  Action action;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  bool operator==(const TimedAction&) const = default;
};

// One rank's actions of a step, in order.
using Timeline = std::vector<TimedAction>;

// Returns for each rank 1 - busy / span, where span goes from the first start to the last end of all ranks. The share
// is 1 for a rank without actions.
std::vector<double> idle_shares(std::span<const Timeline> timelines);

}  // namespace wreath::training
