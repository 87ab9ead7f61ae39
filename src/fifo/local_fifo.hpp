// FIFOs in memory of this process serve links whose messages a pump carries: these are their slots and staging.
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

// Holds whole pages of this process, which are absent until allocated. Pages that nobody touches cost nothing.
// Region::find_at finds them, so that devices can register them.
class LocalMemory {
 public:
  // Allocates zero-filled memory; does nothing when it is there already. Fails with System when memory is refused.
  // `what` names the memory in the message.
  Status allocate(std::size_t bytes, std::string_view what = "staging");
  std::byte* data() const { return region_ == nullptr ? nullptr : region_->data(); }
  // Returns the region of the memory; null before it is allocated.
  const std::shared_ptr<Region>& region() const { return region_; }

 private:
  std::shared_ptr<Region> region_;
};

// Returns the staging size of a FIFO in which every slot may hold a message of any size.
constexpr std::size_t staging_bytes(const FifoShape& shape) { return std::size_t{shape.slot_count} * shape.slot_bytes; }

// Holds the slots and counters that the executor and the pump share for a link's lanes. No slot looks published at
// first.
class LocalFifos {
 public:
  struct Lane {
    SlotHeader* send_slots = nullptr;
    Counter* send_consumed = nullptr;
    SlotHeader* recv_slots = nullptr;
    Counter* recv_consumed = nullptr;
  };
  // Makes FIFOs in both directions, with equally many lanes in each. Throws std::bad_alloc.
  LocalFifos(const FifoShape& send, const FifoShape& recv);
  Lane lane(std::uint16_t number) const;

 private:
  std::size_t send_slots_;
  std::size_t recv_slots_;
  LocalMemory memory_;
};

// Returns the executor's end of an outgoing FIFO over `slots`; the pump counts in `consumed`.
SendFifo local_send_fifo(const FifoShape& shape, std::uint16_t lane, SlotHeader* slots, Counter& consumed);
// Makes the FIFO use `staging`, which must be allocated.
void set_staging(SendFifo& fifo, const LocalMemory& staging);
// Returns the executor's end of an incoming FIFO over `slots`, which counts in `consumed`.
RecvFifo local_recv_fifo(const FifoShape& shape, std::uint16_t lane, const SlotHeader* slots, Counter& consumed);

// Has both FIFOs of a lane. `send` and `recv` are the executor's ends, and the pump is the other end of both.
struct LocalLane {
  LocalLane(const LocalFifos& fifos, std::uint16_t number, const FifoShape& outgoing, const FifoShape& incoming);
  // Allocates the staging memory of messages to send, and makes `send` use it.
  Status prepare();
  // Publishes message `sequence` to the executor. Its other fields are those of `message`, and its data is at `data` in
  // this process.
  void publish(std::uint32_t sequence, const SlotHeader& message, const std::byte* data) const;

  // The counter send_consumed counts messages that the wire needs no more. Their memory may be used again.
  LocalFifos::Lane shared;
  LocalMemory send_staging;
  SendFifo send;
  RecvFifo recv;
};

}  // namespace wreath
