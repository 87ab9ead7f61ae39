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
  const std::uint32_t region = load_relaxed(slot.region);
  const std::uint64_t offset = load_relaxed(slot.offset);
  const Located located =
      region == kPingPong ? locate_ping_pong(fifo, offset, bytes) : locate_in_region(fifo, region, offset, bytes);
  return located.state == Locating::Found ? located.data : nullptr;
}

// Puts the message into a slot beside its header. This is no part of publish_message, whose messages in headers should
// not pay for it.
[[gnu::noinline]] void fill_slot(const OutgoingMessage& message, SlotHeader& header, const CopyKernels& copies) {
  SendFifo& fifo = *message.fifo;
  SlotFill fill;
  std::byte* const place = fill.begin(fifo, message.bytes);
  fill.fill(copies, place, message.data, message.bytes);
  fill.end(copies);
  const MessagePlace name = name_place(fifo, place, message.bytes);
  header.flags = 0;
  header.region = name.region;
  header.offset = name.offset;
}

// Takes the message out of a slot beside its header.
[[gnu::noinline]] Advance take_slot(const IncomingMessage& message, const SlotHeader& header,
                                    const CopyKernels& copies) {
  RecvFifo& fifo = *message.fifo;
  const std::byte* const data = find_data(fifo, header, message.bytes);
  if (data == nullptr) return Advance::Blocked;
  copies.plain(message.data, data, message.bytes);
  hold_place(fifo);
  consume(fifo);
  return Advance::Done;
}

}  // namespace

void publish_message(const OutgoingMessage& message, const CopyKernels& copies) {
  SendFifo& fifo = *message.fifo;
  SlotHeader& slot = next_slot(fifo);
  slot.epoch = message.epoch;
  slot.signature = message.signature;
  slot.bytes = static_cast<std::uint32_t>(message.bytes);
  if (message.bytes <= kHeaderBytes) {
    slot.flags = kSlotInline;
    slot.region = fifo.staging_region;
    slot.offset = 0;
    std::memcpy(slot.data, message.data, message.bytes);
  } else {
    fill_slot(message, slot, copies);
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
  if (!in_header) return take_slot(message, *slot, copies);
  copies.plain(message.data, slot->data, message.bytes);
  consume(fifo);
  return Advance::Done;
}

}  // namespace wreath
