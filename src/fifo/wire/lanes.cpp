// Makes the initial state of the lanes, and answers the pump's questions about one lane.
#include "src/fifo/wire/lanes.hpp"

#include <utility>

#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

// Returns the shape of an incoming FIFO, which holds a whole window.
FifoShape incoming(FifoShape shape) {
  shape.slot_count = window_messages(shape);
  return shape;
}

// Returns the next message to send if it is published, with or without room.
const SlotHeader* published(const WireLane& lane) {
  const SlotHeader& slot = lane.slot(lane.sent.end());
  return load_acquire(slot.sequence) == lane.sent.end() ? &slot : nullptr;
}

}  // namespace

WireLane::WireLane(const FifoShape& shape, const LocalFifos& fifos, std::uint16_t number)
    : LocalLane(fifos, number, shape, incoming(shape)), sent(shape), received(shape) {}

const SlotHeader* WireLane::sendable() const {
  const SlotHeader* slot = published(*this);
  return slot != nullptr && sent.has_room(slot->bytes) ? slot : nullptr;
}

bool WireLane::starved() const {
  const SlotHeader* slot = published(*this);
  return slot != nullptr && !sent.has_room(slot->bytes);
}

std::uint32_t WireLane::consumed() const { return load_acquire(shared.recv_consumed->value); }

void WireLane::publish_received(const SlotHeader& message, const std::byte* data) {
  publish(message.sequence, message, data);
  received.add(message.bytes);
}

WireLanes::WireLanes(const FifoShape& shape) : shape_(shape), fifos_(shape, incoming(shape)) {
  for (std::uint16_t i = 0; i < shape.lanes; ++i) lanes_.push_back(std::make_unique<WireLane>(shape, fifos_, i));
  used_.reserve(shape.lanes);
}

WireLane& WireLanes::use(std::uint16_t lane) {
  WireLane& own = *lanes_[lane];
  if (!std::exchange(own.used, true)) used_.push_back(&own);
  return own;
}

Status WireLanes::prepare(std::uint16_t lane) { return lanes_[lane]->prepare(); }

std::size_t WireLanes::held_bytes(std::size_t header_bytes) const {
  std::size_t bytes = 0;
  for (const WireLane* lane : used_) {
    for (std::uint32_t sequence = lane->shared.send_consumed->value; sequence != lane->send.next; ++sequence) {
      bytes += header_bytes + lane->slot(sequence).bytes;
    }
  }
  return bytes;
}

}  // namespace wreath
