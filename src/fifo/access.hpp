// The FIFO protocol: the only code that touches sequences and `consumed` counters. Executors (host
// and CUDA) and pumps call it. Templates over the FIFO type, so that the model test runs this very
// code on recorded memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// The data of a message that lie in this process.
inline const std::byte* address_of(const SlotHeader& slot) {
  return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(slot.offset));
}

// ---- the producing end ----

// Whether the consumer's counter says that slots are free, which are then known to be: a look, for who knows of none.
template <typename Send>
WREATH_HOST_DEVICE inline bool look_for_credit(Send& fifo) {
  const auto free = static_cast<std::uint32_t>(fifo.slot_count - (fifo.next - look(fifo.consumed->value)));
  fifo.credits = free <= fifo.slot_count ? free : 0;  // more cannot be: a consumer that says so is not believed
  if (planted_fault(5)) ++fifo.credits;
  return fifo.credits > 0;
}

// Whether the next message has a free slot. Looks at the consumer's counter only when all that were known to be free
// are used.
template <typename Send>
WREATH_HOST_DEVICE inline bool has_credit(Send& fifo) {
  if (fifo.credits > 0) return true;
  if (!look_for_credit(fifo)) return false;
  acquire_looks();
  return true;
}

// Whether the consumer is done with every published message. A look: what it read may be written after acquire_looks().
template <typename Send>
WREATH_HOST_DEVICE inline bool drained(const Send& fifo) {
  return fifo.next == look(fifo.consumed->value);
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

// Hands the next message to the consumer: everything written before finish_writes() is seen by who sees it. Requires
// that, after its header was filled, lane and all.
template <typename Send>
WREATH_HOST_DEVICE inline void hand_over(Send& fifo) {
  tell(next_slot(fifo).sequence, fifo.next);
  ++fifo.next;
  if (fifo.credits > 0) --fifo.credits;
}
// The same for one message.
template <typename Send>
WREATH_HOST_DEVICE inline void publish(Send& fifo) {
  if (planted_fault(7)) tell(next_slot(fifo).sequence, fifo.next);
  next_slot(fifo).lane = fifo.lane;
  finish_writes();
  hand_over(fifo);
}

// ---- the consuming end ----

// Where the header of the next message is once it is published.
template <typename Recv>
WREATH_HOST_DEVICE inline auto& awaited_slot(const Recv& fifo) {
  return fifo.slots[fifo.next & (fifo.slot_count - 1)];
}

// Whether the next message was published. A look: its header may be read after acquire_looks().
template <typename Recv>
WREATH_HOST_DEVICE inline bool is_here(const Recv& fifo) {
  const std::uint32_t sequence = look(awaited_slot(fifo).sequence);
  return planted_fault(6) ? sequence >= fifo.next : sequence == fifo.next;
}

// The header of the next message, or null while it has not been published.
template <typename Recv>
WREATH_HOST_DEVICE inline auto peek(const Recv& fifo) -> decltype(&fifo.slots[0]) {
  if (!is_here(fifo)) return nullptr;
  acquire_looks();
  return &awaited_slot(fifo);
}

// Gives the slot back. Requires finish_reads() after the last read of its data and header.
template <typename Recv>
WREATH_HOST_DEVICE inline void give_back(Recv& fifo) {
  ++fifo.next;
  tell(fifo.consumed->value, fifo.next);
}
// The same for one message.
template <typename Recv>
WREATH_HOST_DEVICE inline void consume(Recv& fifo) {
  finish_reads();
  give_back(fifo);
}

// Whether the producer has given up: what its kSlotReference slots name may be something else by now. Of data that was
// read: a look after finish_reads().
WREATH_HOST_DEVICE inline bool gave_up(const RecvFifo& fifo) {
  return fifo.owner_aborted != nullptr && load_relaxed(fifo.owner_aborted->value) != 0;
}

// After the data of a kSlotReference slot was read: whether it was the sender's data, not what the sender
// put there after an abort.
WREATH_HOST_DEVICE inline bool read_is_valid(const Counter& senders_aborted) {
  finish_reads();
  return load_relaxed(senders_aborted.value) == 0;
}

// A value of SlotHeader::region beside those of fifo.hpp, between ranks of one process. The data is in memory of a
// device, at the address by which that device's kernels reach it. SlotHeader::data has the DeviceAllocation.
inline constexpr std::uint32_t kDeviceAddress = 0xFFFFFFFE;

struct DeviceAllocation {
  std::uint64_t device = 0;      // as this process names it; 0: none, the memory is the host's
  std::uint64_t allocation = 0;  // of the process: a number that no other one of the device has or will have; 0: untold
};
WREATH_HOST_DEVICE inline const DeviceAllocation& allocation_of(const SlotHeader& slot) {
  return *reinterpret_cast<const DeviceAllocation*>(slot.data);
}
WREATH_HOST_DEVICE inline void set_allocation(SlotHeader& slot, const DeviceAllocation& allocation) {
  *reinterpret_cast<DeviceAllocation*>(slot.data) = allocation;
}

enum class Locating : std::uint8_t {
  Found,
  Fetched,   // who asks does not reach `data`: it is read through fifo.process, or by `device`
  Unmapped,  // its region was not announced yet: stay blocked
  Invalid,   // the header names memory outside its region, or no region at all: fail the communicator
};
struct Located {
  Locating state;
  const std::byte* data;     // null unless Found or Fetched
  std::uint64_t device = 0;  // in whose memory its sender has it, as this process names it; 0: the host's
};

// A message that was located is read in this way.
struct Origin {
  bool fetched;
  std::uint64_t device;  // as in Located
};

WREATH_HOST_DEVICE inline const std::byte* address_in(const SlotHeader& slot) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(slot.offset));
}

// Finds a message in the producer's region table, and checks it against the region's size.
WREATH_HOST_DEVICE inline Located locate_in_region(const RecvFifo& fifo, std::uint32_t region, std::uint64_t offset,
                                                   std::uint64_t bytes) {
  if (region == 0 || region >= kMaximumRegions || fifo.regions == nullptr) return {Locating::Invalid, nullptr};
  const RegionView& view = fifo.regions[region];
  const std::byte* base = look(view.base);
  if (base == nullptr) return {Locating::Unmapped, nullptr};
  if (bytes > view.bytes || offset > view.bytes - bytes) return {Locating::Invalid, nullptr};
  return {view.device != 0 ? Locating::Fetched : Locating::Found, base + offset, view.device};
}

// Finds the data of a message, for host code of this process. `slot` is a copy of its header (load_far), which another
// process may change while it is looked at. `own` is what lies in the header itself. Nothing but same_process makes an
// address of a header one of this process.
WREATH_HOST_DEVICE inline Located locate(RecvFifo& fifo, const SlotHeader& slot, const std::byte* own) {
  if ((slot.flags & kSlotInline) != 0) {
    if (slot.bytes > sizeof slot.data) return {Locating::Invalid, nullptr};
    return {Locating::Found, own};
  }
  switch (slot.region) {
    case kDeviceAddress:
      if (!fifo.same_process) return {Locating::Invalid, nullptr};
      return {Locating::Fetched, address_in(slot), allocation_of(slot).device};
    case kPeerAddress:
      if (fifo.process == nullptr) return {Locating::Invalid, nullptr};
      return {Locating::Fetched, address_in(slot)};
    case kLocalAddress:
      if (!fifo.same_process) return {Locating::Invalid, nullptr};
      return {Locating::Found, address_in(slot)};
    default: return locate_in_region(fifo, slot.region, slot.offset, slot.bytes);
  }
}
WREATH_HOST_DEVICE inline Located locate(RecvFifo& fifo, const SlotHeader& slot) {
  return locate(fifo, slot, slot.data);
}

}  // namespace wreath
