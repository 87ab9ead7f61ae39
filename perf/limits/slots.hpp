// The limit of messages through slots: bare loops that fill a slot, raise a flag and copy the slot out.
#pragma once

#include <cstddef>
#include <vector>

#include "perf/limits/effort.hpp"

namespace wreath::perf {

// The loop with a ring of slots that take `ring_bytes` together, one slot for each message.
struct RingTime {
  std::size_t ring_bytes = 0;
  double us = kNotANumber;
};

// Returns the median times of messages of `bytes` bytes between two pinned threads, with rings of more and more slots.
// With `both_ways` each thread fills a slot of its own ring, waits for the other's flag and copies the other's slot
// out. Otherwise the first thread only fills, as far ahead of the second as its ring has slots. With `rewrite` inputs
// are stored anew before each call, outside the clock. The list is empty where there are fewer than two cores, or what
// came out is wrong.
std::vector<RingTime> slots_times(std::size_t bytes, bool both_ways, bool rewrite, const Effort& effort = {});

// Returns the median time of the same loop both ways where a thread fills the slot that it has just read; NaN where
// slots_times() would be empty.
double handed_over_us(std::size_t bytes, bool rewrite, const Effort& effort = {});

// Each returns the row with the least or the longest time, or with NaN where there is none.
RingTime fastest_ring(const std::vector<RingTime>& times);
RingTime slowest_ring(const std::vector<RingTime>& times);

}  // namespace wreath::perf
