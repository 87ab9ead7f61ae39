// Publishing and taking single messages.
#include "src/executor/pair.hpp"

#include <cstring>

#include "src/executor/slot_fill.hpp"
#include "src/fifo/access.hpp"

namespace wreath {

void publish_message(const OutgoingMessage& message, const CopyKernels& copies) {
  SendFifo& fifo = *message.fifo;
  SlotHeader& slot = next_slot(fifo);
  slot.epoch = message.epoch;
  slot.signature = message.signature;
  slot.bytes = static_cast<std::uint32_t>(message.bytes);
  slot.region = fifo.staging_region;
  if (message.bytes <= sizeof slot.data) {
    slot.flags = kSlotInline;
    slot.offset = 0;
    std::memcpy(slot.data, message.data, message.bytes);
  } else {
    const std::size_t place = staging_place(fifo, message.bytes);
    SlotFill fill;
    fill.begin(history_of(fifo, message.bytes));
    fill.fill(copies, fifo.staging + place, message.data, message.bytes);
    fill.end(copies);
    slot.flags = 0;
    slot.offset = fifo.staging_offset + place;
  }
  publish(fifo);
}

Advance take_message(const IncomingMessage& message, const CopyKernels& copies) {
  RecvFifo& fifo = *message.fifo;
  const SlotHeader* header = peek(fifo);
  if (header == nullptr || header->signature != message.signature || header->bytes != message.bytes) {
    return Advance::Blocked;
  }
  const Located located = locate(fifo, *header);
  if (located.state != Locating::Found || (header->flags & kSlotReference) != 0) return Advance::Blocked;
  copies.plain(message.data, located.data, message.bytes);
  consume(fifo);
  return Advance::Done;
}

}  // namespace wreath
