// Publishes and takes single messages.
#include "src/executor/pair.hpp"

#include <cstring>

#include "src/executor/slot_fill.hpp"
#include "src/fifo/access.hpp"

namespace wreath {
namespace {

// Returns the data of a message whose data is not in its header; null where it cannot be taken from this process's
// memory.
const std::byte* find_data(RecvFifo& fifo, const SlotHeader& slot, std::size_t bytes) {
  if (load_relaxed(slot.flags) != 0) return nullptr;
  const Located located = locate_in_region(fifo, load_relaxed(slot.region), load_relaxed(slot.offset), bytes);
  return located.state == Locating::Found ? located.data : nullptr;
}

}  // namespace

void publish_message(const OutgoingMessage& message, const CopyKernels& copies) {
  SendFifo& fifo = *message.fifo;
  SlotHeader& slot = next_slot(fifo);
  slot.epoch = message.epoch;
  slot.signature = message.signature;
  slot.bytes = static_cast<std::uint32_t>(message.bytes);
  slot.region = fifo.staging_region;
  if (message.bytes <= kHeaderBytes) {
    slot.flags = kSlotInline;
    slot.offset = 0;
    std::memcpy(slot.data, message.data, message.bytes);
  } else {
    SlotFill fill;
    const std::size_t place = fill.begin(fifo, message.bytes);
    fill.fill(copies, fifo.staging + place, message.data, message.bytes);
    fill.end(copies);
    slot.flags = 0;
    slot.offset = fifo.staging_offset + place;
  }
  publish(fifo);
}

void prepare_next(SendFifo& fifo) {
  if (has_credit(fifo)) next_slot(fifo).lane = fifo.lane;
}

// Reads each field of the header once, because its sender may change it meanwhile.
Advance take_message(const IncomingMessage& message, const CopyKernels& copies) {
  RecvFifo& fifo = *message.fifo;
  const SlotHeader* slot = peek(fifo);
  if (slot == nullptr || slot->signature != message.signature || slot->bytes != message.bytes) return Advance::Blocked;
  if (slot->epoch != message.epoch || slot->lane != fifo.lane) return Advance::Blocked;
  const bool in_header = message.bytes <= kHeaderBytes && load_relaxed(slot->flags) == kSlotInline;
  const std::byte* data = in_header ? slot->data : find_data(fifo, *slot, message.bytes);
  if (data == nullptr) return Advance::Blocked;
  copies.plain(message.data, data, message.bytes);
  consume(fifo);
  return Advance::Done;
}

}  // namespace wreath
