// Starts ranks for `wreath doctor`, to see what they hold.
#pragma once

#include <cstdint>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

// The resources of one process, as the system counts them. Shared memory is divided among the processes that map it.
struct Held {
  std::int64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
};

struct RankHeld {
  std::int32_t rank = 0;
  // The resources before the communicator, with the rank's own buffers.
  Held before;
  // The resources with a communicator, after calls of every kind of lane.
  Held used;
  // The time from the creation of the communicator to the first result.
  std::int64_t start_us = 0;
};

// Starts `ranks` processes, lets them use a communicator, and ends them. The caller must have no other threads.
Result<std::vector<RankHeld>> hold_ranks(int ranks);

}  // namespace wreath
