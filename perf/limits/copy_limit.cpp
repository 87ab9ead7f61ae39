// Measures by memory_bandwidth how fast threads copy at once.
#include "perf/limits/copy_limit.hpp"

#include <algorithm>
#include <bit>

#include "perf/limits/memory.hpp"

namespace wreath::perf {

double CopyLimit::time_us(double received_bytes, int receivers) {
  constexpr double kSmallest = 8 << 10;
  constexpr double kLargest = 128 << 20;
  const auto working_set =
      std::bit_floor(static_cast<std::size_t>(std::clamp(2 * received_bytes, kSmallest, kLargest)));
  const auto [found, is_new] = copy_gbps_.try_emplace({receivers, working_set}, 0);
  if (is_new) found->second = memory_bandwidth(working_set, receivers, kQuickEffort).copy_gbps / 2 / receivers;
  return flag_ns_ / 1e3 + received_bytes / (found->second * 1e3);
}

}  // namespace wreath::perf
