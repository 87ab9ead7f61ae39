// Ranks that `wreath doctor` starts, to see what they hold.
#pragma once

#include <cstdint>
#include <vector>

#include "wreath/result.hpp"

namespace wreath {

// Of one process, as the system counts it; shared memory is divided among those who map it.
struct Held {
  std::int64_t resident_bytes = 0;
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
};

struct RankHeld {
  std::int32_t rank = 0;
  Held before;                // its own memory for buffers included
  Held used;                  // with a communicator after calls of every kind of lane
  std::int64_t start_us = 0;  // from its making to the first result
};

// Starts `ranks` processes, lets them use a communicator, and ends them. The caller has no threads.
Result<std::vector<RankHeld>> hold_ranks(int ranks);

}  // namespace wreath
