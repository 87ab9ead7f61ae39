// The machine's own limits, measured before the ranks meet, when nothing else runs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "perf/common/collectives.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

struct Limits {
  std::string name;                       // "shared memory limit"; empty: none was measured
  std::map<std::size_t, double> time_us;  // by bytes
  double flag_ns = 0;                     // a flag's way from core to core; 0: unknown
};

// Why --limits has nothing to show for such a run; empty where it has.
std::string_view why_no_limit(const CollectiveRow& row, const Options& options);

// For --limits, each size of the run between `ranks` cores of this host. In shared memory: the fastest hand-written
// all_reduce; for the others a flag and a copy of what the rank which gets most has to get, which is what the bus
// bandwidth counts. Where wires alone are allowed: two ranks that swap as much over loopback. The flag's
// flight is always measured. Sizes that cannot be measured here (fewer cores than ranks) are left out.
Limits measure_limits(const CollectiveRow& row, const Options& options, int ranks);

}  // namespace wreath::perf
