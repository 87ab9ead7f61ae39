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

// Whether the next message has a free slot. Looks at the consumer's counter only when all that were known to be free
// are used.
template <typename Send>
WREATH_HOST_DEVICE inline bool has_credit(Send& fifo) {
  if (fifo.credits > 0) return true;
  fifo.credits = fifo.slot_count - static_cast<std::uint32_t>(fifo.next - load_acquire(fifo.consumed->value));
  return fifo.credits > 0;
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

// Where in its staging a message of `bytes` bytes is put: in its slot, of which small messages use one part after the
// other, until kSpreadBytes of all slots were used. Lines that the consumer read lately are dear to fill again.
inline constexpr std::size_t kSpreadBytes = 256 * 1024;
WREATH_HOST_DEVICE inline std::size_t staging_place(const SendFifo& fifo, std::size_t bytes) {
  const std::size_t slot = fifo.next & (fifo.slot_count - 1);
  const std::size_t share = kSpreadBytes / fifo.slot_count;
  std::size_t part = 64;
  while (part < bytes) part *= 2;
  std::size_t parts = (share < fifo.slot_bytes ? share : fifo.slot_bytes) / part;
  if (parts == 0) parts = 1;
  return slot * fifo.slot_bytes + (fifo.next / fifo.slot_count & (parts - 1)) * part;
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
  if (fifo.credits > 0) --fifo.credits;
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
  Fetched,   // host code does not reach `data`: it is read through fifo.process, or by `device`
  Unmapped,  // its region was not announced yet, or the host is to bring it: stay blocked
  Invalid,   // the header names memory outside its region, or no region at all: fail the communicator
};
struct Located {
  Locating state;
  const std::byte* data;     // null unless Found or Fetched
  std::uint64_t device = 0;  // in whose memory its sender has it, as this process names it; 0: the host's
};

// Of a slot of kDeviceAddress.
WREATH_HOST_DEVICE inline const DeviceAllocation& allocation_of(const SlotHeader& slot) {
  return *reinterpret_cast<const DeviceAllocation*>(slot.data);
}
WREATH_HOST_DEVICE inline void set_allocation(SlotHeader& slot, const DeviceAllocation& allocation) {
  *reinterpret_cast<DeviceAllocation*>(slot.data) = allocation;
}

WREATH_HOST_DEVICE inline const std::byte* address_in(const SlotHeader& slot) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(slot.offset));
}

// Of blocks. Who waits has not consumed: the slot stays while the host reads.
WREATH_HOST_DEVICE inline Located locate_pulled(RecvFifo& fifo, const DeviceAllocation& memory = {}) {
  if (load_acquire(fifo.pulled->sequence) != fifo.next) {
    store_release(fifo.pulled->wanted, fifo.next);
    return {Locating::Unmapped, nullptr};
  }
  if (fifo.pulled->in_place != 0) fifo.reached = memory;
  return {Locating::Found, fifo.pulled->data, memory.device};
}

WREATH_HOST_DEVICE inline bool blocks_reach(const RecvFifo& fifo, const DeviceAllocation& memory) {
  if (memory.device == fifo.device) return true;
  return memory.allocation != 0 && memory.allocation == fifo.reached.allocation && memory.device == fifo.reached.device;
}

WREATH_HOST_DEVICE inline Located locate_in_device(RecvFifo& fifo, const DeviceAllocation& memory,
                                                   const std::byte* data) {
  if (fifo.pulled == nullptr) return {Locating::Fetched, data, memory.device};
  if (blocks_reach(fifo, memory)) return {Locating::Found, data, memory.device};
  return locate_pulled(fifo, memory);
}

// In the producer's region table, checked against the region's size.
WREATH_HOST_DEVICE inline Located locate_in_region(RecvFifo& fifo, const SlotHeader& slot) {
  if (slot.region >= kMaximumRegions || fifo.regions == nullptr) return {Locating::Invalid, nullptr};
  const RegionView& view = fifo.regions[slot.region];
  const std::byte* base = load_acquire(view.base);
  if (base == nullptr) return {Locating::Unmapped, nullptr};
  if (slot.bytes > view.bytes || slot.offset > view.bytes - slot.bytes) return {Locating::Invalid, nullptr};
  if (view.device != 0) return locate_in_device(fifo, {view.device, 0}, base + slot.offset);
  return {Locating::Found, base + slot.offset};
}

// Where the data of a peeked slot is in this process.
WREATH_HOST_DEVICE inline Located locate(RecvFifo& fifo, const SlotHeader& slot) {
  if ((slot.flags & kSlotInline) != 0) {
    if (slot.bytes > sizeof slot.data) return {Locating::Invalid, nullptr};
    return {Locating::Found, slot.data};
  }
  const bool by_blocks = fifo.pulled != nullptr;
  switch (slot.region) {
    case kDeviceAddress:
      if (!fifo.same_process) return {Locating::Invalid, nullptr};
      return locate_in_device(fifo, allocation_of(slot), address_in(slot));
    case kPeerAddress:
      if (by_blocks) return locate_pulled(fifo);
      if (fifo.process == nullptr) return {Locating::Invalid, nullptr};
      return {Locating::Fetched, address_in(slot)};
    case kLocalAddress:
      return by_blocks && fifo.pulls_local ? locate_pulled(fifo) : Located{Locating::Found, address_in(slot)};
    default: return locate_in_region(fifo, slot);
  }
}

}  // namespace wreath
