// The shm limit: how fast threads that reach each other's buffers directly can all-reduce float32.
#pragma once

#include <cstddef>

#include "perf/limits/effort.hpp"

namespace wreath::perf {

// Microseconds of the fastest of four hand-written all-reduces between `ranks` pinned threads, results checked:
// direct (flags, then every rank sums a part into all outputs, or everything into its own; plain or streaming
// stores) and pushed (every rank copies its input to where the others read it; lines with the flag inside up
// to 1 KiB, whole messages to 4 MiB). With `rewrite`, every rank stores a new input before each call, outside
// the clock. NaN when this process has fewer cores than ranks, or for ranks outside 2..64.
double shm_all_reduce_limit_us(std::size_t bytes, int ranks, bool rewrite, const Effort& effort = {});

// Half a round trip of a flag between two pinned threads, and what that says of their distance: near up to
// 120 ns (cores that share a last-level cache), far above. NaN with fewer than two cores.
double flag_flight_ns(const Effort& effort = {});
inline const char* core_distance(double flight_ns) { return flight_ns <= 120 ? "near" : "far"; }

}  // namespace wreath::perf
