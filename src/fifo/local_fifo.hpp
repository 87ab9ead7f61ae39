// FIFOs in memory of this process, for links whose messages a pump carries: their slots and staging.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "src/base/region.hpp"
#include "wreath/fifo.hpp"
#include "wreath/link.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Whole pages of this process, absent until allocated; those that are not used cost nothing. Region::find_at finds
// them, so that devices can be let in.
class LocalMemory {
 public:
  // Zero-filled. Does nothing when it is there. System when memory is refused; `what` is for the message.
  Status allocate(std::size_t bytes, std::string_view what = "staging");
  std::byte* data() const { return region_ == nullptr ? nullptr : region_->data(); }

 private:
  std::shared_ptr<Region> region_;
};

// Of a FIFO whose every slot may hold a message of any size.
constexpr std::size_t staging_bytes(const FifoShape& shape) { return std::size_t{shape.slot_count} * shape.slot_bytes; }

// What the executor and the pump share of a link's lanes: slots, none of which looks published, and counters.
class LocalFifos {
 public:
  struct Lane {
    SlotHeader* send_slots = nullptr;
    Counter* send_consumed = nullptr;
    SlotHeader* recv_slots = nullptr;
    Counter* recv_consumed = nullptr;
  };
  // Of FIFOs in both directions, as many lanes of each. Throws std::bad_alloc.
  LocalFifos(const FifoShape& send, const FifoShape& recv);
  Lane lane(std::uint16_t number) const;

 private:
  std::size_t send_slots_;
  std::size_t recv_slots_;
  LocalMemory memory_;
};

// The executor's end of an outgoing FIFO over `slots`; the pump counts in `consumed`.
SendFifo local_send_fifo(const FifoShape& shape, std::uint16_t lane, SlotHeader* slots, Counter& consumed);
// Names `staging` in it, once allocated.
void set_staging(SendFifo& fifo, const LocalMemory& staging);
// The executor's end of an incoming FIFO over `slots`, which counts in `consumed`.
RecvFifo local_recv_fifo(const FifoShape& shape, std::uint16_t lane, const SlotHeader* slots, Counter& consumed);

}  // namespace wreath
