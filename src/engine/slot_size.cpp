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

SlotSizes slot_sizes(int ranks, std::uint64_t ranks_in_process, const CommunicatorOptions& options) {
  const std::uint64_t peers = static_cast<std::uint64_t>(std::max(1, ranks - 1));
  const std::uint64_t processes_share = options.overrides.buffer_bytes / std::max<std::uint64_t>(1, ranks_in_process);
  const std::uint64_t all_lanes = processes_share / (peers * options.overrides.slot_count);
  const std::uint64_t lanes = lanes_with_slots(options);
  const std::uint64_t bytes = std::clamp(std::bit_floor(all_lanes / lanes), kMinimumSlotBytes, kMaximumSlotBytes);
  const std::uint64_t others = (lanes - 1) * bytes;
  const std::uint64_t left = all_lanes > others ? all_lanes - others : 0;
  const std::uint64_t last = std::clamp(std::bit_floor(left), bytes, kMaximumSlotBytes);
  return {static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(last)};
}

}  // namespace wreath
