// The budget of slots, and of all else that a rank holds.
#include "src/communicator/buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "src/communicator/exchange.hpp"
#include "src/communicator/options.hpp"
#include "src/fifo/segment.hpp"
#include "src/membership/pairwise_members.hpp"
#include "src/recorder/layout.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/memory_budget.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kStrands = 2;  // lanes of one data lane that fill slots, in most rows
constexpr std::uint64_t kMinimumSlotBytes = 4 * 1024;
constexpr std::uint64_t kMaximumSlotBytes = kLargestTile;

// Held by a test: heap of links, control connections and plans, and code that is used for the first time.
constexpr std::size_t kBookkeepingBytes = std::size_t{1} << 20;
constexpr std::size_t kBookkeepingOfPeerBytes = 24 * 1024;

constexpr int kDescriptorsOfPeer = 2;  // the control connection, the doorbell
constexpr int kDescriptors = 12;       // segment, doorbell, recorder, progress thread, staging of lanes, interrupts

std::uint64_t peers_of(int ranks) { return static_cast<std::uint64_t>(std::max(1, ranks - 1)); }

}  // namespace

std::uint32_t lanes_with_slots(const CommunicatorOptions& options) {
  return kStrands * static_cast<std::uint32_t>(std::max(1, options.overrides.lanes)) + 1;
}

std::uint32_t slot_bytes_of(int ranks, std::uint64_t ranks_in_process, const CommunicatorOptions& options) {
  const std::uint64_t slots = peers_of(ranks) * lanes_with_slots(options) * options.overrides.slot_count;
  const std::uint64_t share = options.overrides.buffer_bytes / std::max<std::uint64_t>(1, ranks_in_process) / slots;
  return static_cast<std::uint32_t>(std::clamp(std::bit_floor(share), kMinimumSlotBytes, kMaximumSlotBytes));
}

Result<MemoryBudget> memory_budget(int ranks, int ranks_in_process, const CommunicatorOptions& options) {
  if (ranks < 1 || ranks_in_process < 1 || ranks_in_process > ranks) {
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("memory_budget: {} ranks, {} in a process", ranks, ranks_in_process)};
  }
  const auto complete = complete_options(options);
  if (!complete) return complete.error();
  MemoryBudget budget;
  budget.ranks = ranks;
  budget.ranks_in_process = ranks_in_process;
  budget.slot_bytes = slot_bytes_of(ranks, static_cast<std::uint64_t>(ranks_in_process), *complete);
  budget.slot_count = complete->overrides.slot_count;
  budget.lanes = lanes_with_slots(*complete);
  const auto peers = static_cast<std::size_t>(ranks - 1);
  const SegmentLayout layout(ranks, {kLanes, budget.slot_count, budget.slot_bytes, 0, 0});
  budget.headers = layout.small_area;
  budget.small_area = layout.bytes - layout.small_area;
  budget.staging = peers * budget.lanes * budget.slot_count * budget.slot_bytes;
  budget.recorder = sizeof(RecorderMemory);
  budget.bookkeeping = kBookkeepingBytes + peers * kBookkeepingOfPeerBytes;
  budget.descriptors = kDescriptors + kDescriptorsOfPeer * (ranks - 1) + std::min(ranks - 1, kProcessWatchers);
  budget.threads = 1;
  return budget;
}

}  // namespace wreath
