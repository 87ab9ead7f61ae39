// The slots of a communicator share the memory that its process allows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wreath/communicator.hpp"

namespace wreath {

// Returns the number of lanes that have slots: the lanes that most algorithms fill, and the lane of sends and receives.
std::uint32_t lanes_with_slots(const CommunicatorOptions& options);

struct SlotSizes {
  std::uint32_t bytes;           // of a slot
  std::uint32_t exchange_bytes;  // of a slot for sends and receives where peers map it: this lane has what is left
};
// Returns the sizes where no process holds more than `ranks_in_process` of the ranks.
SlotSizes slot_sizes(int ranks, std::uint64_t ranks_in_process, const CommunicatorOptions& options);

}  // namespace wreath
