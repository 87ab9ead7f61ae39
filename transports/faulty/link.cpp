// Pumps messages between the two pairs of FIFOs, and adds the faults.
#include "transports/faulty/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/clock.hpp"
#include "src/base/memory_order.hpp"
#include "src/fifo/access.hpp"
#include "src/fifo/mapped_link.hpp"

namespace wreath {

FaultyLink::FaultyLink(std::unique_ptr<Link> inner, const FifoShape& shape, Rank self, Rank peer,
                       const FaultRates& rates)
    : inner_(std::move(inner)),
      wire_(inner_->wire()),
      shape_(shape),
      self_(self),
      peer_(peer),
      faults_(rates, self, peer),
      fifos_(shape, shape) {
  for (std::uint16_t i = 0; i < shape.lanes; ++i) {
    lanes_.push_back({LocalLane(fifos_, i, shape, shape), {}, shape.first_sequence});
  }
}

Status FaultyLink::prepare(std::uint16_t number) {
  Lane& lane = lanes_[number];
  WREATH_TRY(inner_->prepare(number));
  WREATH_TRY(lane.prepare());
  WREATH_TRY(lane.recv_staging.allocate(staging_bytes(shape_)));
  if (std::find(used_.begin(), used_.end(), number) == used_.end()) used_.push_back(number);
  return {};
}

Result<std::size_t> FaultyLink::progress(bool expecting) {
  if (broken_) return *broken_;
  const Result<std::size_t> moved = wire_ == nullptr ? 0 : wire_->progress(expecting);
  if (!moved) return moved;
  std::size_t bytes = *moved;
  bool published = false;
  for (const std::uint16_t number : used_) {
    const auto sent = forward(lanes_[number]);
    if (!sent) return broken_.emplace(sent.error());
    const auto received = deliver(lanes_[number]);
    if (!received) return broken_.emplace(received.error());
    published = published || *sent > 0 || *received > 0;
    bytes += *sent + *received;
  }
  if (MappedLink* const memory = mapped(); published && memory != nullptr) {
    // The fence comes before the look at the peer's `sleeping`.
    full_fence();
    memory->wake();
  }
  return bytes;
}

// Says whether the message at hand is still delayed. Its fault is drawn once.
bool FaultyLink::held(Lane& lane) {
  if (!lane.drawn) {
    lane.drawn = true;
    lane.fault = faults_.next();
    lane.due_ns = lane.fault == LinkFault::Delay ? now_ns() + faults_.delay_ms() * 1'000'000 : 0;
  }
  return lane.due_ns != 0 && now_ns() < lane.due_ns;
}

Result<std::size_t> FaultyLink::forward(Lane& lane) {
  std::size_t moved = 0;
  SendFifo& inner = inner_->send_fifo(lane.send.lane);
  while (lane.shared.send_consumed->value != lane.send.next) {
    const SlotHeader& from = lane.shared.send_slots[lane.shared.send_consumed->value & (shape_.slot_count - 1)];
    if (held(lane) || !has_credit(inner)) return moved;
    lane.drawn = false;
    if (lane.fault == LinkFault::Close) {
      return Error{ErrorCode::PeerLost, fmt::format("the faulty link from rank {} to rank {} closed", self_, peer_),
                   peer_};
    }
    if (lane.fault != LinkFault::Drop) {
      const std::uint32_t bytes = from.bytes - (lane.fault == LinkFault::Truncate && from.bytes > 0 ? 1 : 0);
      std::memcpy(stage(inner), address_of(from), bytes);
      SlotHeader& to = next_slot(inner);
      to.epoch = from.epoch;
      to.signature = from.signature;
      to.bytes = bytes;
      publish(inner);
      moved += bytes + 1;
    }
    store_release(lane.shared.send_consumed->value, lane.shared.send_consumed->value + 1);
  }
  return moved;
}

Result<std::size_t> FaultyLink::deliver(Lane& lane) {
  std::size_t moved = 0;
  RecvFifo& inner = inner_->recv_fifo(lane.send.lane);
  while (lane.received - lane.shared.recv_consumed->value < shape_.slot_count) {
    const SlotHeader* here = peek(inner);
    if (here == nullptr) return moved;
    const SlotHeader from = load_far(*here);
    const Located data = locate(inner, from, here->data);
    if (data.state == Locating::Unmapped) return moved;
    if (data.state != Locating::Found || from.bytes > shape_.slot_bytes) {
      return Error{ErrorCode::PeerLost, fmt::format("faulty link to rank {}: a slot without its data", peer_), peer_};
    }
    const std::uint32_t place = lane.received & (shape_.slot_count - 1);
    std::byte* target = lane.recv_staging.data() + std::size_t{place} * shape_.slot_bytes;
    std::memcpy(target, data.data, from.bytes);
    lane.publish(lane.received++, from, target);
    moved += from.bytes + 1;
    consume(inner);
  }
  return moved;
}

std::size_t FaultyLink::in_flight() const {
  std::size_t bytes = wire_ == nullptr ? 0 : wire_->in_flight();
  for (const std::uint16_t number : used_) {
    const Lane& lane = lanes_[number];
    bytes += lane.send.next - lane.shared.send_consumed->value;
  }
  return bytes;
}

}  // namespace wreath
