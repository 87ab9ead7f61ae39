// The ends of FIFOs that blocks of a device use. Blocks reach other memory than the host does, so their ends say which,
// and messages are named for them, and found by them, in other ways. LaneGrid makes these ends from the links' own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/memory_order.hpp"
#include "src/executor/lane_messages.hpp"
#include "src/executor/state.hpp"
#include "src/fifo/access.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// Blocks do not know to reach some messages. When they ask for one, the host copies it to where they reach it, or lets
// them in to where it is. `sequence` is then `wanted`.
struct alignas(32) PulledMessage {
  std::uint32_t wanted = 0;
  std::uint32_t sequence = 0;       // of the message at `data`; all that follows is written before it
  const std::byte* data = nullptr;  // where blocks reach the message
  std::uint32_t in_place = 0;       // non-zero: its sender's own memory; from now on they reach all of that allocation
};

struct DeviceSendFifo : SendFifo {
  // The reader is in this process, and is told the address in the device's memory.
  bool same_process = false;
  // A bit for each region of the device's memory that the reader has mapped.
  std::uint64_t readable = 0;
  // The adapters of a wire read the operation's buffers where they are.
  bool read_by_adapter = false;
};

struct DeviceRecvFifo : RecvFifo {
  PulledMessage* pulled = nullptr;
  std::uint64_t device = 0;       // the one whose memory the blocks reach
  DeviceAllocation reached = {};  // the allocation of another device that they were let in to last
  std::uint32_t asked = 0;        // the last message that they asked for, or the one before `next`
  bool pulls_local = false;       // the host reads what is at kLocalAddress for them, too
};

WREATH_HOST_DEVICE inline InPlace in_place(const DeviceSendFifo& fifo, std::uint32_t region) {
  const bool mapped = region != 0 && (fifo.readable >> region & 1U) != 0;
  return fifo.same_process || mapped || fifo.read_by_adapter ? InPlace::Large : InPlace::Never;
}

WREATH_HOST_DEVICE inline void name_message(SlotHeader& slot, const DeviceSendFifo& fifo,
                                            const OperationState& operation, const std::byte* data,
                                            const MessageName& name) {
  name_message(slot, static_cast<const SendFifo&>(fifo), operation, data, name);
  if (!fifo.same_process || (name.flags & kSlotReference) == 0 || operation.device == 0) return;
  slot.region = kDeviceAddress;
  slot.offset = reinterpret_cast<std::uint64_t>(data);
  set_allocation(slot, {operation.device, operation.allocation[static_cast<int>(name.buffer)]});
}

// Asks the host for the next message. Who waits has not consumed: the slot stays while the host reads.
WREATH_HOST_DEVICE inline Located locate_pulled(DeviceRecvFifo& fifo, const DeviceAllocation& memory = {}) {
  if (look(fifo.pulled->sequence) != fifo.next) {
    if (fifo.asked != fifo.next) store_release(fifo.pulled->wanted, fifo.next);
    fifo.asked = fifo.next;
    return {Locating::Unmapped, nullptr};
  }
  acquire_looks();
  const PulledMessage& message = load_far(*fifo.pulled);
  if (message.in_place != 0) fifo.reached = memory;
  return {Locating::Found, message.data, memory.device};
}

WREATH_HOST_DEVICE inline bool blocks_reach(const DeviceRecvFifo& fifo, const DeviceAllocation& memory) {
  if (memory.device == fifo.device) return true;
  return memory.allocation != 0 && memory.allocation == fifo.reached.allocation && memory.device == fifo.reached.device;
}

// Does the same as locate() of the host. Unmapped also means that the host was asked for the message.
WREATH_HOST_DEVICE inline Located locate(DeviceRecvFifo& fifo, const SlotHeader& slot, const std::byte* own) {
  const bool in_header = (slot.flags & kSlotInline) != 0;
  const bool of_host = slot.region == kPeerAddress || slot.region == kPingPong ||
                       (slot.region == kLocalAddress && fifo.same_process && fifo.pulls_local);
  if (!in_header && of_host) return locate_pulled(fifo);
  const Located found = locate(static_cast<RecvFifo&>(fifo), slot, own);
  if (found.state != Locating::Fetched) return found;
  const DeviceAllocation memory =
      slot.region == kDeviceAddress ? allocation_of(slot) : DeviceAllocation{found.device, 0};
  if (blocks_reach(fifo, memory)) return {Locating::Found, found.data, memory.device};
  return locate_pulled(fifo, memory);
}
WREATH_HOST_DEVICE inline Located locate(DeviceRecvFifo& fifo, const SlotHeader& slot) {
  return locate(fifo, slot, slot.data);
}

}  // namespace wreath
