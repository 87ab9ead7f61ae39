// The machine's own limits, measured before the ranks meet, when nothing else runs.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "perf/common/options.hpp"

namespace wreath::perf {

struct Limits {
  std::string name;                       // "shared memory limit"; empty: none was measured
  std::map<std::size_t, double> time_us;  // by bytes
  double flag_ns = 0;                     // a flag's way from core to core; 0: unknown
};

// For --limits, each size of the run between `ranks` cores of this host: over loopback where tcp is the
// only transport allowed, else in shared memory. The flag's flight is always measured. Sizes that cannot
// be measured here (fewer cores than ranks) are left out.
Limits measure_limits(const Options& options, int ranks);

}  // namespace wreath::perf
