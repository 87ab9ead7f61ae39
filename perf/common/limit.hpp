// The limits of the machine. They are measured before the ranks meet, when nothing else runs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "perf/common/collectives.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

struct Limits {
  std::string name;                       // "shared memory limit"; empty: none
  std::map<std::size_t, double> time_us;  // by bytes
  // The time of as many bytes through slots with the best ring or, if that is faster, where slots change
  // hands, by bytes: two ranks on shared memory, 8 KiB to 2 MiB.
  std::map<std::size_t, double> slots_us;
  // The time of a flag from core to core; 0: unknown.
  double flag_ns = 0;
};

// Returns the reason why --limits has nothing to show for such a run; empty where it has.
std::string_view why_no_limit(const CollectiveRow& row, const Options& options);

// Measures the limit of each size of the run between `ranks` cores of this host, for --limits. In shared memory it is
// the fastest handwritten all_reduce. For other collectives it is a flag and a copy of the bytes for the rank that gets
// most. The bus bandwidth counts these bytes. Where only wires are allowed, two ranks swap as much over loopback. The
// time of a flag is always measured. Sizes that cannot be measured here (fewer cores than ranks) are left out.
Limits measure_limits(const CollectiveRow& row, const Options& options, int ranks);

}  // namespace wreath::perf
