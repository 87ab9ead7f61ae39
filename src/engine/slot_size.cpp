// The budget of a process determines the size of its slots.
#include "src/engine/slot_size.hpp"

#include <algorithm>
#include <bit>

#include "src/tuner/tuner.hpp"

namespace wreath {
namespace {

// The lanes of one data lane that fill slots, in most rows.
constexpr std::uint32_t kStrands = 2;
constexpr std::uint64_t kMinimumSlotBytes = 4 * 1024;
constexpr std::uint64_t kMaximumSlotBytes = kLargestTile;

}  // namespace

std::uint32_t lanes_with_slots(const CommunicatorOptions& options) {
  return kStrands * static_cast<std::uint32_t>(std::max(1, options.overrides.lanes)) + 1;
}

std::uint32_t slot_bytes_of(int ranks, std::uint64_t ranks_in_process, const CommunicatorOptions& options) {
  const std::uint64_t slots =
      static_cast<std::uint64_t>(std::max(1, ranks - 1)) * lanes_with_slots(options) * options.overrides.slot_count;
  const std::uint64_t share = options.overrides.buffer_bytes / std::max<std::uint64_t>(1, ranks_in_process) / slots;
  return static_cast<std::uint32_t>(std::clamp(std::bit_floor(share), kMinimumSlotBytes, kMaximumSlotBytes));
}

}  // namespace wreath
