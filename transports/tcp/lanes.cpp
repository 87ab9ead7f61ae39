// Makes the initial state of the lanes, and answers the pump's questions about one lane.
#include "transports/tcp/lanes.hpp"

#include <utility>

#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

// Returns the shape of an incoming FIFO, which holds a whole window.
FifoShape incoming(FifoShape shape) {
  shape.slot_count = window_messages(shape);
  return shape;
}

std::unique_ptr<TcpLane> make_lane(const FifoShape& shape, const LocalFifos& fifos, std::uint16_t number) {
  auto lane = std::make_unique<TcpLane>(shape);
  lane->shared = fifos.lane(number);
  lane->send = local_send_fifo(shape, number, lane->shared.send_slots, *lane->shared.send_consumed);
  lane->recv = local_recv_fifo(incoming(shape), number, lane->shared.recv_slots, *lane->shared.recv_consumed);
  lane->recv.landing = &lane->landing;
  return lane;
}

// Returns the next message to send if it is published, with or without room.
const SlotHeader* published(const TcpLane& lane) {
  const SlotHeader* slot = &lane.shared.send_slots[lane.sent.end() & (lane.send.slot_count - 1)];
  return load_acquire(slot->sequence) == lane.sent.end() ? slot : nullptr;
}

}  // namespace

const SlotHeader* TcpLane::sendable() const {
  const SlotHeader* slot = published(*this);
  return slot != nullptr && sent.has_room(slot->bytes) ? slot : nullptr;
}

bool TcpLane::starved() const {
  const SlotHeader* slot = published(*this);
  return slot != nullptr && !sent.has_room(slot->bytes);
}

std::uint32_t TcpLane::consumed() const { return load_acquire(shared.recv_consumed->value); }

TcpLanes::TcpLanes(const FifoShape& shape) : shape_(shape), fifos_(shape, incoming(shape)) {
  for (std::uint16_t i = 0; i < shape.lanes; ++i) lanes_.push_back(make_lane(shape, fifos_, i));
  used_.reserve(shape.lanes);
}

TcpLane& TcpLanes::use(std::uint16_t lane) {
  TcpLane& own = *lanes_[lane];
  if (!std::exchange(own.used, true)) used_.push_back(&own);
  return own;
}

}  // namespace wreath
