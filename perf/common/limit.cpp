// Asking perf/limits for what a run needs.
#include "perf/common/limit.hpp"

#include <cmath>

#include "perf/limits/shm.hpp"
#include "perf/limits/tcp.hpp"

namespace wreath::perf {

Limits measure_limits(const Options& options, int ranks) {
  Limits limits;
  if (ranks < 2) return limits;
  const double flight_ns = flag_flight_ns(kQuickEffort);
  if (!std::isnan(flight_ns)) limits.flag_ns = flight_ns;
  if (!options.limits) return limits;
  const auto& allowed = options.communicator.transports;
  const bool wire = allowed.size() == 1 && allowed[0] == "tcp";
  for (const std::size_t bytes : sizes_of(options.sizes, sizeof(float))) {
    if (bytes == 0 || (wire && ranks != 2)) continue;
    const double time_us = wire ? tcp_exchange_limit_us(bytes, kQuickEffort)
                                : shm_all_reduce_limit_us(bytes, ranks, options.rewrite, kQuickEffort);
    if (!std::isnan(time_us)) limits.time_us[bytes] = time_us;
  }
  if (!limits.time_us.empty()) limits.name = wire ? "loopback limit" : "shared memory limit";
  return limits;
}

}  // namespace wreath::perf
