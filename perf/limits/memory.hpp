// Memory bandwidth of copies and of two-source sums, in caches and beyond.
#pragma once

#include <cstddef>

#include "perf/limits/effort.hpp"

namespace wreath::perf {

struct Bandwidth {
  double copy_gbps = 0;    // the fastest of the plain, the string and the streaming copy
  double reduce_gbps = 0;  // target = a + b in float32
};

// Returns the bytes read and written by all threads, in 1e9 per second. Each of `threads` (1 or more) pinned threads
// works on buffers that take `working_set_bytes` together. Returns NaN when there are not enough cores.
Bandwidth memory_bandwidth(std::size_t working_set_bytes, int threads, const Effort& effort = {});

}  // namespace wreath::perf
