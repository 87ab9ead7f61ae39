// What memory, cores and loopback allow the calls that are tuned.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "perf/limits/memory.hpp"
#include "perf/limits/shm.hpp"
#include "perf/limits/tcp.hpp"
#include "perf/tune/tune.hpp"

namespace wreath::perf {
namespace {

// Bytes that the rank which gets most has to get, in units of the call's size.
double received(Collective collective, int ranks) {
  const double others = ranks - 1;
  switch (collective) {
    case Collective::AllReduce: return 2 * others / ranks;
    case Collective::Broadcast: return 1;
    case Collective::Reduce: return others;
    default: return others / ranks;
  }
}

// How fast threads copy, each of them: measured once for each working set, to a power of two.
class CopySpeeds {
 public:
  double gbps(int threads, double working_set_bytes) {
    const auto rounded = std::bit_floor(static_cast<std::size_t>(std::clamp(working_set_bytes, kSmallest, kLargest)));
    const auto [found, is_new] = known_.try_emplace({threads, rounded}, 0);
    if (is_new) found->second = memory_bandwidth(rounded, threads, kQuickEffort).copy_gbps / 2 / threads;
    return found->second;
  }

 private:
  static constexpr double kSmallest = 8 << 10;
  static constexpr double kLargest = 128 << 20;
  std::map<std::pair<int, std::size_t>, double> known_;
};

// A flag, and a copy of what is received, by all ranks at once where all receive.
double copied_us(CopySpeeds& speeds, Collective collective, int ranks, std::size_t bytes, double flag_ns) {
  const double received_bytes = received(collective, ranks) * static_cast<double>(bytes);
  const double gbps = speeds.gbps(has_root(collective) ? 1 : ranks, 2 * received_bytes);
  return flag_ns / 1e3 + received_bytes / (gbps * 1e3);
}

// Of two ranks that each receive as much as the other: what raw sockets take for that. NaN for others.
double exchanged_us(Collective collective, int ranks, std::size_t bytes) {
  if (ranks != 2 || has_root(collective)) return std::nan("");
  const double received_bytes = received(collective, ranks) * static_cast<double>(bytes);
  return tcp_exchange_limit_us(static_cast<std::size_t>(std::max(1.0, received_bytes)), kQuickEffort);
}

}  // namespace

std::vector<TuningLimit> tuning_limits(const TuneRequest& request, int ranks, double flag_ns) {
  std::vector<TuningLimit> limits;
  CopySpeeds speeds;
  for (const std::string& transport : request.transports) {
    const bool mapped = transport == "shm";
    for (const std::size_t bytes : tuned_sizes(request)) {
      // Those that receive alike have one limit.
      double blocks_us = std::nan("");
      for (const Collective collective : request.collectives) {
        const bool blocks = collective == Collective::AllGather || collective == Collective::AllToAll ||
                            collective == Collective::ReduceScatter;
        double us = blocks ? blocks_us : std::nan("");
        if (std::isnan(us) && mapped && collective == Collective::AllReduce) {
          us = shm_all_reduce_limit_us(bytes, ranks, false, kQuickEffort);
        } else if (std::isnan(us)) {
          us = mapped ? copied_us(speeds, collective, ranks, bytes, flag_ns) : exchanged_us(collective, ranks, bytes);
        }
        if (blocks) blocks_us = us;
        if (std::isfinite(us) && us > 0) limits.push_back({collective, ranks, mapped, bytes, us});
      }
    }
  }
  return limits;
}

}  // namespace wreath::perf
