// This file computes idle shares of timelines.
#include "training/pipeline/timeline.hpp"

#include <algorithm>
#include <limits>

namespace wreath::training {

std::vector<double> idle_shares(std::span<const Timeline> timelines) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  std::vector<double> busy;
  for (const Timeline& timeline : timelines) {
    std::int64_t sum = 0;
    for (const TimedAction& timed : timeline) {
      first = std::min(first, timed.start_ns);
      last = std::max(last, timed.end_ns);
      sum += timed.end_ns - timed.start_ns;
    }
    busy.push_back(static_cast<double>(sum));
  }
  std::vector<double> idle;
  for (const double sum : busy) idle.push_back(last > first ? 1 - sum / static_cast<double>(last - first) : 1);
  return idle;
}

}  // namespace wreath::training
