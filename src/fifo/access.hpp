// This is the FIFO protocol, and the only code that touches sequences and `consumed` counters. Executors (host and
// CUDA) and pumps call it. The functions are templates over the FIFO type, so that the model test runs this very code
// on recorded memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "src/base/planted_fault.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// Returns the address in a header, where the message lies in one process.
WREATH_HOST_DEVICE inline const std::byte* address_of(const SlotHeader& slot) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(slot.offset));
}

// ---- the producing end ----

// The room that a message needs.
enum class Room : std::uint8_t {
  Header,  // its data lies elsewhere
  Staging,
};

// Returns how many headers are free where there is room for the next message. Its place in the staging memory is free
// when the message that was there before is consumed, and all messages before that.
template <typename Send>
WREATH_HOST_DEVICE inline std::uint32_t credits_for(const Send& fifo, Room room) {
  return room == Room::Header ? 1 : fifo.slot_count - fifo.staging_count + 1;
}

// Looks at the consumer's counter and stores the count of free headers in fifo.credits. Returns whether there is room
// for a message. A caller that has too few credits calls it. It is a look: acquire_looks() comes before the first write
// to a slot.
template <typename Send>
WREATH_HOST_DEVICE inline bool look_for_credit(Send& fifo, Room room) {
  const auto free = static_cast<std::uint32_t>(fifo.slot_count - (fifo.next - look(fifo.consumed->value)));
  // There cannot be more free headers than headers. A consumer that says so is not believed.
  fifo.credits = free <= fifo.slot_count ? free : 0;
  if (planted_fault(5)) ++fifo.credits;
  return fifo.credits >= credits_for(fifo, room);
}

// Returns whether there is room for the next message. Looks at the consumer's counter only when too few headers are
// known to be free.
template <typename Send>
WREATH_HOST_DEVICE inline bool has_credit(Send& fifo, Room room = Room::Staging) {
  if (fifo.credits >= credits_for(fifo, room)) return true;
  if (!look_for_credit(fifo, room)) return false;
  acquire_looks();
  return true;
}

// Returns whether the consumer is done with every published message. It is a look: memory that the consumer read may be
// written after acquire_looks().
template <typename Send>
WREATH_HOST_DEVICE inline bool drained(const Send& fifo) {
  return fifo.next == look(fifo.consumed->value);
}

// Returns the header of the next message. The caller fills all of it but sequence and lane before publish(). Requires
// has_credit().
template <typename Send>
WREATH_HOST_DEVICE inline auto& next_slot(Send& fifo) {
  return fifo.slots[fifo.next & (fifo.slot_count - 1)];
}

// Returns the offset in the staging memory at which a message of `bytes` bytes is put, inside the message's slot. Small
// messages use one part of a slot after the other, until `ring_bytes` of all slots are in use. Cache lines that the
// consumer has just read are expensive to fill again.
WREATH_HOST_DEVICE inline std::size_t staging_place(const SendFifo& fifo, std::size_t bytes, std::size_t ring_bytes) {
  const std::size_t slot = fifo.next & (fifo.staging_count - 1);
  const std::size_t share = ring_bytes / fifo.staging_count;
  std::size_t part = 64;
  while (part < bytes) part *= 2;
  std::size_t parts = (share < fifo.slot_bytes ? share : fifo.slot_bytes) / part;
  if (parts == 0) parts = 1;
  return slot * fifo.slot_bytes + (fifo.next / fifo.staging_count & (parts - 1)) * part;
}

// ---- ping-pong slots ----

WREATH_HOST_DEVICE inline bool is_held(const PingPongSlots& slots, std::uint32_t number) {
  for (std::uint32_t i = 0; i < slots.count; ++i) {
    if (slots.held[(slots.first + i) % PingPongSlots::kCount] == number) return true;
  }
  return false;
}

// Takes note that this rank holds the slot from now on.
WREATH_HOST_DEVICE inline void hold(PingPongSlots& slots, std::uint32_t number) {
  if (!slots.fills || is_held(slots, number)) return;
  slots.held[(slots.first + slots.count) % PingPongSlots::kCount] = static_cast<std::uint8_t>(number);
  ++slots.count;
}

WREATH_HOST_DEVICE inline std::uint32_t slots_of(std::uint64_t bytes) { return bytes > PingPongSlots::kBytes ? 2 : 1; }

// Returns the number of the slot that this rank has held for the longest time, or longest but so many others.
WREATH_HOST_DEVICE inline std::uint32_t held_number(const PingPongSlots& slots, std::uint32_t others = 0) {
  return slots.held[(slots.first + others) % PingPongSlots::kCount];
}

// Returns the slots that this rank has held for the longest time, for a message of so many bytes; null where it has
// none. It may put slots behind others to find two that follow each other.
WREATH_HOST_DEVICE inline std::byte* held_slots(PingPongSlots* slots, std::uint64_t bytes) {
  const std::uint32_t wanted = slots_of(bytes);
  if (slots == nullptr || slots->count < wanted || bytes > PingPongSlots::kMostBytes) return nullptr;
  for (std::uint32_t tries = 0; tries < slots->count; ++tries) {
    const std::uint32_t number = held_number(*slots);
    if (wanted == 1 || (number % 2 == 0 && held_number(*slots, 1) == number + 1)) return slots->data[number];
    slots->held[(slots->first + slots->count) % PingPongSlots::kCount] = static_cast<std::uint8_t>(number);
    slots->first = (slots->first + 1) % PingPongSlots::kCount;
  }
  return nullptr;
}

// Names a place, in the header that tells of it.
struct MessagePlace {
  std::uint32_t region;
  std::uint64_t offset;
};

// Returns the name of the place of the next message of so many bytes, which is to be published. Ping-pong slots are
// then the peer's.
WREATH_HOST_DEVICE inline MessagePlace name_place(SendFifo& fifo, const std::byte* place, std::uint64_t bytes) {
  PingPongSlots* const slots = fifo.ping_pong;
  if (slots != nullptr && slots->count > 0 && slots->data[held_number(*slots)] == place) {
    const std::uint32_t number = held_number(*slots);
    slots->first = (slots->first + slots_of(bytes)) % PingPongSlots::kCount;
    slots->count -= slots_of(bytes);
    return {kPingPong, number};
  }
  return {fifo.staging_region, fifo.staging_offset + static_cast<std::uint64_t>(place - fifo.staging)};
}

// Points the next header at its own place in the staging memory and returns that place (slot_bytes). Requires
// has_credit() for Room::Staging, and prepared staging.
WREATH_HOST_DEVICE inline std::byte* stage(SendFifo& fifo) {
  const std::size_t offset = std::size_t{fifo.next & (fifo.staging_count - 1)} * fifo.slot_bytes;
  SlotHeader& slot = next_slot(fifo);
  slot.flags = 0;
  slot.region = fifo.staging_region;
  slot.offset = fifo.staging_offset + offset;
  return fifo.staging + offset;
}

// Publishes the next message. A consumer that sees its sequence sees everything that was written before
// finish_writes(). The caller first fills the header, lane included, and then calls finish_writes().
template <typename Send>
WREATH_HOST_DEVICE inline void hand_over(Send& fifo) {
  tell(next_slot(fifo).sequence, fifo.next);
  ++fifo.next;
  if (fifo.credits > 0) --fifo.credits;
}
// Publishes one message: sets its lane, calls finish_writes() and hands it over.
template <typename Send>
WREATH_HOST_DEVICE inline void publish(Send& fifo) {
  if (planted_fault(7)) tell(next_slot(fifo).sequence, fifo.next);
  next_slot(fifo).lane = fifo.lane;
  finish_writes();
  hand_over(fifo);
}

// ---- the consuming end ----

// Returns the place where the header of the next message appears.
template <typename Recv>
WREATH_HOST_DEVICE inline auto& awaited_slot(const Recv& fifo) {
  return fifo.slots[fifo.next & (fifo.slot_count - 1)];
}

// Returns whether the next message was published. It is a look: the header may be read after acquire_looks().
template <typename Recv>
WREATH_HOST_DEVICE inline bool is_here(const Recv& fifo) {
  const std::uint32_t sequence = look(awaited_slot(fifo).sequence);
  return planted_fault(6) ? sequence >= fifo.next : sequence == fifo.next;
}

// Returns the header of the next message; null while it has not been published.
template <typename Recv>
WREATH_HOST_DEVICE inline auto peek(const Recv& fifo) -> decltype(&fifo.slots[0]) {
  if (!is_here(fifo)) return nullptr;
  acquire_looks();
  return &awaited_slot(fifo);
}

// Gives the slot back to the producer. Requires finish_reads() after the last read of its data and header.
template <typename Recv>
WREATH_HOST_DEVICE inline void give_back(Recv& fifo) {
  ++fifo.next;
  tell(fifo.consumed->value, fifo.next);
}
// Gives one slot back: calls finish_reads() first.
template <typename Recv>
WREATH_HOST_DEVICE inline void consume(Recv& fifo) {
  finish_reads();
  give_back(fifo);
}

// Holds the ping-pong slots of the message at hand, if it is in any. It comes after the last read of the message, and
// before the header's slot is given back.
WREATH_HOST_DEVICE inline void hold_place(RecvFifo& fifo) {
  for (std::uint32_t i = 0; i < fifo.ping_pong_slots; ++i) hold(*fifo.ping_pong, fifo.ping_pong_first + i);
  fifo.ping_pong_slots = 0;
}

// Returns whether the FIFO wants places ahead (RecvFifo::landings), and has as many as it takes.
WREATH_HOST_DEVICE inline bool has_places(const RecvFifo& fifo) {
  return fifo.landings > 1 &&
         static_cast<std::int32_t>(fifo.posted - fifo.next) >= static_cast<std::int32_t>(fifo.landings);
}
// Posts the place of the next message for which none was posted, or that it has none (`target` is null).
WREATH_HOST_DEVICE inline void post_ahead(RecvFifo& fifo, std::byte* target, std::uint64_t bytes) {
  if (fifo.landings == 1) return;
  fifo.landing[fifo.posted & (fifo.landings - 1)] = {target, fifo.posted, static_cast<std::uint32_t>(bytes)};
  ++fifo.posted;
}

// Returns whether the producer has given up. The memory that its kSlotReference slots name may then hold other data. It
// is a look: for data that was read it comes after finish_reads().
WREATH_HOST_DEVICE inline bool gave_up(const RecvFifo& fifo) {
  return fifo.owner_aborted != nullptr && load_relaxed(fifo.owner_aborted->value) != 0;
}

// Returns whether the data that was just read from a kSlotReference slot is valid. It is not valid if the sender has
// aborted, because the sender may write there after an abort.
WREATH_HOST_DEVICE inline bool read_is_valid(const Counter& senders_aborted) {
  finish_reads();
  return load_relaxed(senders_aborted.value) == 0;
}

// This is a value of SlotHeader::region beside those of fifo.hpp, used between ranks of one process. The data is in
// memory of a device, at the address that the device's kernels use. SlotHeader::data holds the DeviceAllocation.
inline constexpr std::uint32_t kDeviceAddress = 0xFFFFFFFE;

struct DeviceAllocation {
  // The device's number in this process; 0 for memory of the host.
  std::uint64_t device = 0;
  // The process's number of the allocation, which no other allocation of the device ever has; 0 when it is not given.
  std::uint64_t allocation = 0;
};
WREATH_HOST_DEVICE inline const DeviceAllocation& allocation_of(const SlotHeader& slot) {
  return *reinterpret_cast<const DeviceAllocation*>(slot.data);
}
WREATH_HOST_DEVICE inline void set_allocation(SlotHeader& slot, const DeviceAllocation& allocation) {
  *reinterpret_cast<DeviceAllocation*>(slot.data) = allocation;
}

enum class Locating : std::uint8_t {
  Found,
  // The caller cannot load from `data`: it is read through fifo.process, or by `device`.
  Fetched,
  // The producer has not announced the region yet: the caller stays blocked.
  Unmapped,
  // The header names memory outside its region, or no region at all: the caller fails the communicator.
  Invalid,
};
struct Located {
  Locating state;
  const std::byte* data;  // null unless Found or Fetched
  // The number in this process of the device that holds the sender's memory; 0 for the host.
  std::uint64_t device = 0;
};

// Stands in place of Located::device for a message that is read where it lies.
inline constexpr std::uint64_t kReadInPlace = ~std::uint64_t{0};

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

// Finds a message in ping-pong slots, which the producer held before.
WREATH_HOST_DEVICE inline Located locate_ping_pong(RecvFifo& fifo, std::uint64_t number, std::uint64_t bytes) {
  const PingPongSlots* const slots = fifo.ping_pong;
  const std::uint32_t count = slots_of(bytes);
  // kCount is even, so the second of two is a slot, too.
  const bool known = slots != nullptr && number < PingPongSlots::kCount && bytes <= PingPongSlots::kMostBytes;
  if (!known || number % count != 0) return {Locating::Invalid, nullptr};
  const auto first = static_cast<std::uint32_t>(number);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (is_held(*slots, first + i)) return {Locating::Invalid, nullptr};
  }
  fifo.ping_pong_first = first;
  fifo.ping_pong_slots = count;
  return {Locating::Found, slots->data[first]};
}

// Says in a header how many bytes of the next messages lie behind the data.
WREATH_HOST_DEVICE inline void set_rest(SlotHeader& slot, std::uint64_t bytes) {
  slot.flags |= kSlotRest;
  *reinterpret_cast<std::uint64_t*>(slot.data) = bytes;
}
// Returns what set_rest() said; 0 where it said nothing.
WREATH_HOST_DEVICE inline std::uint64_t rest_of(const SlotHeader& slot) {
  const bool says = (slot.flags & kSlotRest) != 0 && slot.region == kPeerAddress;
  return says ? *reinterpret_cast<const std::uint64_t*>(slot.data) : 0;
}

// Finds the data of a message, for host code of this process. `slot` is a copy of its header (load_far), because
// another process may change the header meanwhile. `own` is the data in the header itself. An address in a header is
// taken for one of this process only under same_process.
WREATH_HOST_DEVICE inline Located locate(RecvFifo& fifo, const SlotHeader& slot, const std::byte* own) {
  if ((slot.flags & kSlotInline) != 0) {
    if (slot.bytes > sizeof slot.data) return {Locating::Invalid, nullptr};
    return {Locating::Found, own};
  }
  switch (slot.region) {
    case kDeviceAddress:
      if (!fifo.same_process) return {Locating::Invalid, nullptr};
      return {Locating::Fetched, address_of(slot), allocation_of(slot).device};
    case kPeerAddress:
      if (fifo.process == nullptr) return {Locating::Invalid, nullptr};
      return {Locating::Fetched, address_of(slot)};
    case kLocalAddress:
      if (!fifo.same_process) return {Locating::Invalid, nullptr};
      return {Locating::Found, address_of(slot)};
    case kPingPong: return locate_ping_pong(fifo, slot.offset, slot.bytes);
    default: return locate_in_region(fifo, slot.region, slot.offset, slot.bytes);
  }
}
WREATH_HOST_DEVICE inline Located locate(RecvFifo& fifo, const SlotHeader& slot) {
  return locate(fifo, slot, slot.data);
}

}  // namespace wreath
