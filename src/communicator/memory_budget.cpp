// The budget covers all memory that a rank holds.
#include "wreath/memory_budget.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/communicator/options.hpp"
#include "src/engine/exchange.hpp"
#include "src/engine/slot_size.hpp"
#include "src/fifo/segment.hpp"
#include "src/membership/pairwise_members.hpp"
#include "src/recorder/layout.hpp"

namespace wreath {
namespace {

// A test checks the two values below. They cover the heap of links, control connections and plans, and code that is
// used for the first time.
constexpr std::size_t kBookkeepingBytes = std::size_t{1} << 20;
constexpr std::size_t kBookkeepingOfPeerBytes = 24 * 1024;

constexpr int kDescriptorsOfPeer = 2;  // control connection and doorbell
// These are segment, doorbell, recorder, progress thread, staging of lanes, and interrupts.
constexpr int kDescriptors = 12;

}  // namespace

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
  const SlotSizes sizes = slot_sizes(ranks, static_cast<std::uint64_t>(ranks_in_process), *complete);
  budget.slot_bytes = sizes.bytes;
  budget.exchange_slot_bytes = sizes.exchange_bytes;
  budget.slot_count = complete->overrides.slot_count;
  budget.lanes = lanes_with_slots(*complete);
  const auto peers = static_cast<std::size_t>(ranks - 1);
  FifoShape shape{kLanes, budget.slot_count, budget.slot_bytes, 0, 0};
  shape.mapped_headers = mapped_headers(ranks);
  const SegmentLayout layout(ranks, shape);
  budget.headers = layout.ping_pong;
  budget.small_area = layout.bytes - layout.ping_pong;
  const std::size_t lanes_bytes = std::size_t{budget.lanes - 1} * budget.slot_bytes + budget.exchange_slot_bytes;
  budget.staging = peers * budget.slot_count * lanes_bytes;
  budget.recorder = sizeof(RecorderMemory);
  budget.bookkeeping = kBookkeepingBytes + peers * kBookkeepingOfPeerBytes;
  budget.descriptors = kDescriptors + kDescriptorsOfPeer * (ranks - 1) + std::min(ranks - 1, kProcessWatchers);
  // Several sockets wait in a set of the kernel's, which stands for the one that is counted above.
  if (complete->tcp_sockets > 1) budget.descriptors += static_cast<int>(complete->tcp_sockets) * (ranks - 1);
  budget.threads = 1;
  return budget;
}

}  // namespace wreath
