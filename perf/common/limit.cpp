// Measures the limits that a run needs by perf/limits.
#include "perf/common/limit.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "perf/limits/copy_limit.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/shm.hpp"
#include "perf/limits/slots.hpp"
#include "perf/limits/tcp.hpp"
#include "wreath/transport.hpp"

namespace wreath::perf {
namespace {

// Returns whether only wires are allowed.
bool by_wire(const Options& options) {
  const auto& allowed = options.communicator.transports;
  return !allowed.empty() && std::all_of(allowed.begin(), allowed.end(), [](const std::string& name) {
    const TransportRow* const row = find_transport(name);
    return row != nullptr && row->is_wire();
  });
}

// Returns the sizes of the run's rows.
std::set<std::size_t> bytes_of(const CollectiveRow& row, const Options& options, int ranks) {
  std::set<std::size_t> all;
  for (const DataType dtype : options.dtypes) {
    for (const std::size_t size : sizes_of(options.sizes, size_of(dtype)))
      all.insert(make_case(row, ranks, size, {dtype, ReduceOp::Sum, 0}).bytes);
  }
  all.erase(0);
  return all;
}

// Bare loops through slots are measured for messages of these sizes.
constexpr double kLeastSlotsBytes = 8 << 10;
constexpr double kLargestSlotsBytes = 2 << 20;

// Returns the time of the fastest bare loop through slots; NaN where there is none.
double slots_us(std::size_t bytes, const CollectiveRow& row, const Options& options) {
  const double ring_us = fastest_ring(slots_times(bytes, !row.rooted(), options.rewrite, kQuickEffort)).us;
  return row.rooted() ? ring_us : std::fmin(ring_us, handed_over_us(bytes, options.rewrite, kQuickEffort));
}

}  // namespace

std::string_view why_no_limit(const CollectiveRow& row, const Options& options) {
  if (row.has(kNoData)) return "it moves no data";
  if (row.has(kVarying)) return "ranks receive different amounts, for which no limit is defined";
  if (row.rooted() && by_wire(options)) return "over tcp there is a limit only where both ranks receive as much";
  return {};
}

Limits measure_limits(const CollectiveRow& row, const Options& options, int ranks) {
  Limits limits;
  if (ranks < 2) return limits;
  const double flight_ns = flag_flight_ns(kQuickEffort);
  if (!std::isnan(flight_ns)) limits.flag_ns = flight_ns;
  if (!options.limits) return limits;
  const bool wire = by_wire(options);
  const bool sums = row.collective == Collective::AllReduce;
  CopyLimit copies(limits.flag_ns);
  const auto time_us = [&](std::size_t bytes) {
    const double received = row.bus_factor(ranks) * static_cast<double>(bytes);
    if (wire) return tcp_exchange_limit_us(std::max<std::size_t>(1, static_cast<std::size_t>(received)), kQuickEffort);
    if (sums) return shm_all_reduce_limit_us(bytes, ranks, options.rewrite, kQuickEffort);
    return copies.time_us(received, row.rooted() ? 1 : ranks);
  };
  const bool measurable = wire ? ranks == 2 : limits.flag_ns > 0 && !pick_cores(ranks).empty();
  if (!measurable) return limits;
  for (const std::size_t bytes : bytes_of(row, options, ranks)) {
    if (const double us = time_us(bytes); std::isfinite(us)) limits.time_us[bytes] = us;
    const double received = row.bus_factor(ranks) * static_cast<double>(bytes);
    if (wire || ranks != 2 || received < kLeastSlotsBytes || received > kLargestSlotsBytes) continue;
    if (const double us = slots_us(static_cast<std::size_t>(received), row, options); std::isfinite(us)) {
      limits.slots_us[bytes] = us;
    }
  }
  if (!limits.time_us.empty()) limits.name = wire ? "loopback limit" : sums ? "shared memory limit" : "copy limit";
  return limits;
}

}  // namespace wreath::perf
