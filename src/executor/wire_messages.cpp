// Publishes a message for the wire, and finds the one that the wire has brought.
#include "src/executor/wire_messages.hpp"

#include "src/fifo/access.hpp"

namespace wreath {

void WireMessages::start(const OutgoingMessage& sent, const IncomingMessage& received) {
  sent_ = sent;
  received_ = received;
  data_ = nullptr;
  published_ = false;
  if (waits()) post_place();
  if (publishes() && has_credit(*sent_.fifo)) publish();
}

// Lets the pump put the message where it would be copied.
void WireMessages::post_place() const {
  RecvFifo& fifo = *received_.fifo;
  const auto bytes = static_cast<std::uint32_t>(received_.bytes);
  if (fifo.landings > 1) {
    fifo.posted = fifo.next;
    post_ahead(fifo, received_.data, bytes);
  } else if (received_.data != nullptr && fifo.landing != nullptr) {
    *fifo.landing = {received_.data, fifo.next, bytes};
  }
}

void WireMessages::publish() {
  SlotHeader& slot = next_slot(*sent_.fifo);
  slot.epoch = sent_.epoch;
  slot.signature = sent_.signature;
  slot.bytes = static_cast<std::uint32_t>(sent_.bytes);
  slot.flags = sent_.lands ? kSlotLands : 0;
  slot.region = kLocalAddress;
  slot.offset = reinterpret_cast<std::uintptr_t>(sent_.data);
  wreath::publish(*sent_.fifo);
  published_ = true;
}

Advance WireMessages::run() {
  if (publishes() && !published_) {
    if (!has_credit(*sent_.fifo)) return Advance::Blocked;
    publish();
  }
  if (!waits() || data_ != nullptr) return Advance::Done;
  const RecvFifo& fifo = *received_.fifo;
  const SlotHeader* const slot = peek(fifo);
  if (slot == nullptr) return Advance::Blocked;
  const bool belongs = slot->epoch == received_.epoch && slot->lane == fifo.lane;
  if (!belongs || slot->signature != received_.signature || slot->bytes != received_.bytes) return Advance::Failed;
  data_ = address_of(*slot);
  return Advance::Done;
}

bool WireMessages::is_sent() const { return !publishes() || (published_ && drained(*sent_.fifo)); }

void WireMessages::take() {
  if (received_.data != nullptr && received_.data != data_) {
    copy_kernels().plain(received_.data, data_, received_.bytes);
  }
  consume(*received_.fifo);
  received_ = {};
}

bool WireMessages::differs_in_size() const {
  return waits() && awaited_slot(*received_.fifo).signature == received_.signature;
}

}  // namespace wreath
