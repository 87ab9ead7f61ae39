// Each yield is timed.
#include "src/engine/yielding.hpp"

#include <sched.h>

#include <algorithm>

namespace wreath {
namespace {

constexpr double kLongNs = 1e6;
constexpr std::uint32_t kShortestRest = 16;
constexpr std::uint32_t kLongestRest = 1024;
// After so many short yields in a row the driver forgets the long ones.
constexpr std::uint32_t kCalm = 4096;

}  // namespace

Yielding Yielding::since(TickPair earlier, Turns turns) {
  const TickPair now = TickPair::now();
  const double rate = static_cast<double>(now.ticks - earlier.ticks) / static_cast<double>(now.ns - earlier.ns);
  return now.ns > earlier.ns ? Yielding(static_cast<std::uint64_t>(rate * kLongNs), std::move(turns)) : Yielding();
}

bool Yielding::yield() {
  if (!may()) return false;
  const std::uint64_t begin = cycle_count();
  turns_.end(begin);
  sched_yield();
  const std::uint64_t end = cycle_count();
  turns_.begin(end);
  took(end - begin);
  return true;
}

bool Yielding::may() {
  if (refused_ == 0) return true;
  --refused_;
  return false;
}

void Yielding::took(std::uint64_t ticks) {
  if (ticks < long_ticks_ || turns_.fill_core(cycle_count())) {
    if (++short_ >= kCalm) rest_ = 0;
    return;
  }
  short_ = 0;
  rest_ = std::clamp(2 * rest_, kShortestRest, kLongestRest);
  refused_ = rest_;
}

}  // namespace wreath
