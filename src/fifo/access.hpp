// The FIFO protocol: the only code that touches sequences and `consumed` counters. Executors (host
// and CUDA) and pumps call it. Templates over the FIFO type, so that the model test runs this very
// code on recorded memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// ---- the producing end ----

// Whether the next message has a free slot.
template <typename Send>
WREATH_HOST_DEVICE inline bool has_credit(const Send& fifo) {
  return static_cast<std::uint32_t>(fifo.next - load_acquire(fifo.consumed->value)) < fifo.slot_count;
}

// Whether the consumer is done with every published message.
template <typename Send>
WREATH_HOST_DEVICE inline bool drained(const Send& fifo) {
  return fifo.next == load_acquire(fifo.consumed->value);
}

// The header of the next message, to be filled (all but sequence and lane) before publish().
// Requires has_credit().
template <typename Send>
WREATH_HOST_DEVICE inline auto& next_slot(Send& fifo) {
  return fifo.slots[fifo.next & (fifo.slot_count - 1)];
}

// Points the next header at its own staging slot and returns that memory (slot_bytes). Requires
// has_credit() and prepared staging.
WREATH_HOST_DEVICE inline std::byte* stage(SendFifo& fifo) {
  const std::size_t offset = std::size_t{fifo.next & (fifo.slot_count - 1)} * fifo.slot_bytes;
  SlotHeader& slot = next_slot(fifo);
  slot.flags = 0;
  slot.region = fifo.staging_region;
  slot.offset = fifo.staging_offset + offset;
  return fifo.staging + offset;
}

// Hands the next message to the consumer: everything written before is seen by who sees it.
template <typename Send>
WREATH_HOST_DEVICE inline void publish(Send& fifo) {
  auto& slot = next_slot(fifo);
  slot.lane = fifo.lane;
  store_release(slot.sequence, fifo.next);
  ++fifo.next;
}

// ---- the consuming end ----

// The header of the next message, or null while it has not been published.
template <typename Recv>
WREATH_HOST_DEVICE inline auto peek(const Recv& fifo) -> decltype(&fifo.slots[0]) {
  auto* slot = &fifo.slots[fifo.next & (fifo.slot_count - 1)];
  return load_acquire(slot->sequence) == fifo.next ? slot : nullptr;
}

// Gives the slot back, after the last read of its data and header.
template <typename Recv>
WREATH_HOST_DEVICE inline void consume(Recv& fifo) {
  ++fifo.next;
  store_release(fifo.consumed->value, fifo.next);
}

// After the data of a kSlotReference slot was read: whether it was the sender's data, not what the sender
// put there after an abort.
WREATH_HOST_DEVICE inline bool read_is_valid(const Counter& senders_aborted) {
  acquire_fence();
  return load_relaxed(senders_aborted.value) == 0;
}

enum class Locating : std::uint8_t {
  Found,
  Unmapped,  // its region was not announced yet: stay blocked
  Invalid,   // the header names memory outside its region, or no region at all: fail the communicator
};
struct Located {
  Locating state;
  const std::byte* data;  // null unless Found
};

// Where the data of a peeked slot is in this process, checked against the region's size.
WREATH_HOST_DEVICE inline Located locate(const RecvFifo& fifo, const SlotHeader& slot) {
  if (slot.region == kLocalAddress) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return {Locating::Found, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(slot.offset))};
  }
  if (slot.region >= kMaximumRegions || fifo.regions == nullptr) return {Locating::Invalid, nullptr};
  const RegionView& view = fifo.regions[slot.region];
  const std::byte* base = load_acquire(view.base);
  if (base == nullptr) return {Locating::Unmapped, nullptr};
  if (slot.bytes > view.bytes || slot.offset > view.bytes - slot.bytes) return {Locating::Invalid, nullptr};
  return {Locating::Found, base + slot.offset};
}

}  // namespace wreath
