// Measures the limits that memory, cores and loopback set for the calls that are tuned.
#include <algorithm>
#include <cmath>

#include "perf/common/collectives.hpp"
#include "perf/limits/copy_limit.hpp"
#include "perf/limits/shm.hpp"
#include "perf/limits/tcp.hpp"
#include "perf/tune/tune.hpp"

namespace wreath::perf {
namespace {

// Returns the bytes for the rank that gets most, which are the bytes of the bus bandwidth.
double received_bytes(Collective collective, int ranks, std::size_t bytes) {
  const auto row = std::ranges::find(collectives(), collective, &CollectiveRow::collective);
  return row->bus_factor(ranks) * static_cast<double>(bytes);
}

// Returns the time of the copies. All ranks copy at once where all receive.
double copied_us(CopyLimit& copies, Collective collective, int ranks, std::size_t bytes) {
  return copies.time_us(received_bytes(collective, ranks, bytes), has_root(collective) ? 1 : ranks);
}

// Returns the time in which raw sockets move the bytes of two ranks that each receive as much as the other; NaN for
// others.
double exchanged_us(Collective collective, int ranks, std::size_t bytes) {
  if (ranks != 2 || has_root(collective)) return std::nan("");
  const double received = received_bytes(collective, ranks, bytes);
  return tcp_exchange_limit_us(static_cast<std::size_t>(std::max(1.0, received)), kQuickEffort);
}

}  // namespace

bool maps_memory(std::string_view transport) { return !find_transport(transport)->is_wire(); }

std::string wire_of(const std::string& transport) { return maps_memory(transport) ? std::string() : transport; }

std::vector<TuningLimit> tuning_limits(const TuneRequest& request, int ranks, double flag_ns) {
  std::vector<TuningLimit> limits;
  CopyLimit copies(flag_ns);
  for (const std::string& transport : request.transports) {
    const bool mapped = maps_memory(transport);
    // Raw sockets are no limit of adapters.
    if (!mapped && !find_transport(transport)->needs_stream) continue;
    for (const std::size_t bytes : tuned_sizes(request)) {
      // Collectives whose ranks receive alike have one limit.
      double blocks_us = std::nan("");
      for (const Collective collective : request.collectives) {
        const bool blocks = collective == Collective::AllGather || collective == Collective::AllToAll ||
                            collective == Collective::ReduceScatter;
        double us = blocks ? blocks_us : std::nan("");
        if (std::isnan(us) && mapped && collective == Collective::AllReduce) {
          us = shm_all_reduce_limit_us(bytes, ranks, false, kQuickEffort);
        } else if (std::isnan(us)) {
          us = mapped ? copied_us(copies, collective, ranks, bytes) : exchanged_us(collective, ranks, bytes);
        }
        if (blocks) blocks_us = us;
        if (std::isfinite(us) && us > 0) limits.push_back({collective, ranks, wire_of(transport), bytes, us});
      }
    }
  }
  return limits;
}

}  // namespace wreath::perf
