// Initial state of the lanes, and what the pump asks of one.
#include "transports/tcp/lanes.hpp"

#include <fmt/format.h>

#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

std::unique_ptr<SlotHeader[]> make_slots(const FifoShape& shape) {
  auto slots = std::make_unique<SlotHeader[]>(shape.slot_count);
  for (std::uint32_t i = 0; i < shape.slot_count; ++i) {  // as if read one round ago: none looks published
    const std::uint32_t sequence = shape.first_sequence + i;
    slots[sequence & (shape.slot_count - 1)].sequence = sequence - shape.slot_count;
  }
  return slots;
}

void initialise(TcpLane& lane, const FifoShape& shape, std::uint16_t number) {
  lane.send_slots = make_slots(shape);
  lane.recv_slots = make_slots(shape);
  for (std::uint32_t* sequence :
       {&lane.send_consumed.value, &lane.recv_consumed.value, &lane.gathered, &lane.peer_consumed, &lane.received,
        &lane.reported, &lane.send.next, &lane.recv.next}) {
    *sequence = shape.first_sequence;
  }
  lane.send.slots = lane.send_slots.get();
  lane.send.consumed = &lane.send_consumed;
  lane.send.slot_count = shape.slot_count;
  lane.send.slot_bytes = shape.slot_bytes;
  lane.send.lane = number;
  lane.send.by_reference = true;
  lane.recv.slots = lane.recv_slots.get();
  lane.recv.consumed = &lane.recv_consumed;
  lane.recv.landing = &lane.landing;
  lane.recv.slot_count = shape.slot_count;
  lane.recv.lane = number;
}

const SlotHeader* published(const TcpLane& lane, std::uint32_t sequence) {
  const SlotHeader* slot = &lane.send_slots[sequence & (lane.send.slot_count - 1)];
  return load_acquire(slot->sequence) == sequence ? slot : nullptr;
}

bool has_room(const TcpLane& lane) { return lane.gathered - lane.peer_consumed < lane.send.slot_count; }

}  // namespace

Status TcpStaging::allocate(const FifoShape& shape) {
  if (data_) return {};
  const std::size_t bytes = std::size_t{shape.slot_count} * shape.slot_bytes;
  data_.reset(new (kAlignment, std::nothrow) std::byte[bytes]);
  if (!data_) return Error{ErrorCode::System, fmt::format("tcp: no memory for {} bytes of staging", bytes)};
  return {};
}

const SlotHeader* TcpLane::sendable() const { return has_room(*this) ? published(*this, gathered) : nullptr; }

bool TcpLane::starved() const { return !has_room(*this) && published(*this, gathered) != nullptr; }

std::uint32_t TcpLane::unreported() const { return load_acquire(recv_consumed.value) - reported; }

TcpLanes::TcpLanes(const FifoShape& shape) : shape_(shape), lanes_(std::make_unique<TcpLane[]>(shape.lanes)) {
  for (std::uint16_t i = 0; i < shape.lanes; ++i) initialise(lanes_[i], shape, i);
}

}  // namespace wreath
