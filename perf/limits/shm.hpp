// The shm limit: the time of an all-reduce of float32 by threads that reach each other's buffers directly.
#pragma once

#include <cstddef>

#include "perf/limits/effort.hpp"

namespace wreath::perf {

// Returns the microseconds of the fastest of four handwritten all-reduces between `ranks` pinned threads, with checked
// results. In the two direct ones, flags are followed by sums: every rank sums a part into all outputs, or everything
// into its own. They use plain or streaming stores. In the two pushed ones, every rank copies its input to a place
// where the others read it. They push lines with the flag inside up to 1 KiB, and whole messages up to 4 MiB. With
// `rewrite` every rank stores a new input before each call, outside the clock. Returns NaN when this process has fewer
// cores than ranks, or for ranks outside 2..64.
double shm_all_reduce_limit_us(std::size_t bytes, int ranks, bool rewrite, const Effort& effort = {});

// Returns half a round trip of a flag between two pinned threads; NaN with fewer than two cores.
double flag_flight_ns(const Effort& effort = {});
// Returns the distance of two cores: near up to 120 ns (cores that share a last-level cache), and far above.
inline const char* core_distance(double flight_ns) { return flight_ns <= 120 ? "near" : "far"; }

}  // namespace wreath::perf
