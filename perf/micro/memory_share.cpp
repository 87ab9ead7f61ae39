// Measures each yardstick when it is first needed.
#include "perf/micro/memory_share.hpp"

#include <ctime>
#include <map>

#include "perf/limits/memory.hpp"

namespace wreath::perf {

double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double memory_gbps(Yardstick yardstick, std::size_t working_set_bytes) {
  static std::map<std::size_t, Bandwidth> measured;
  auto found = measured.find(working_set_bytes);
  if (found == measured.end()) {
    found = measured.emplace(working_set_bytes, memory_bandwidth(working_set_bytes, 1, kQuickEffort)).first;
  }
  return yardstick == Yardstick::Copy ? found->second.copy_gbps : found->second.reduce_gbps;
}

}  // namespace wreath::perf
