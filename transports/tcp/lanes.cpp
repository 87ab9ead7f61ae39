// Initial state of the lanes, and what the pump asks of one.
#include "transports/tcp/lanes.hpp"

#include <utility>

#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

void initialise(TcpLane& lane, const FifoShape& shape, std::uint16_t number) {
  lane.send_slots = make_local_slots(shape);
  lane.recv_slots = make_local_slots(shape);
  lane.gathered = lane.peer_consumed = lane.received = lane.reported = shape.first_sequence;
  lane.send = local_send_fifo(shape, number, lane.send_slots.get(), lane.send_consumed);
  lane.recv = local_recv_fifo(shape, number, lane.recv_slots.get(), lane.recv_consumed);
  lane.recv.landing = &lane.landing;
}

const SlotHeader* published(const TcpLane& lane, std::uint32_t sequence) {
  const SlotHeader* slot = &lane.send_slots[sequence & (lane.send.slot_count - 1)];
  return load_acquire(slot->sequence) == sequence ? slot : nullptr;
}

bool has_room(const TcpLane& lane) { return lane.gathered - lane.peer_consumed < lane.send.slot_count; }

}  // namespace

const SlotHeader* TcpLane::sendable() const { return has_room(*this) ? published(*this, gathered) : nullptr; }

bool TcpLane::starved() const { return !has_room(*this) && published(*this, gathered) != nullptr; }

std::uint32_t TcpLane::unreported() const { return load_acquire(recv_consumed.value) - reported; }

TcpLanes::TcpLanes(const FifoShape& shape)
    : shape_(shape),
      lanes_(std::make_unique<TcpLane[]>(shape.lanes)),
      used_(std::make_unique<TcpLane*[]>(shape.lanes)) {
  for (std::uint16_t i = 0; i < shape.lanes; ++i) initialise(lanes_[i], shape, i);
}

TcpLane& TcpLanes::use(std::uint16_t lane) {
  TcpLane& own = lanes_[lane];
  if (!std::exchange(own.used, true)) used_[used_count_++] = &own;
  return own;
}

}  // namespace wreath
