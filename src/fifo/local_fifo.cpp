// Initial states: everything was read one round ago.
#include "src/fifo/local_fifo.hpp"

#include <fmt/format.h>

namespace wreath {

Status LocalStaging::allocate(std::size_t bytes) {
  if (data_) return {};
  data_.reset(new (kAlignment, std::nothrow) std::byte[bytes]);
  if (!data_) return Error{ErrorCode::System, fmt::format("no memory for {} bytes of staging", bytes)};
  return {};
}

std::unique_ptr<SlotHeader[]> make_local_slots(const FifoShape& shape) {
  auto slots = std::make_unique<SlotHeader[]>(shape.slot_count);
  for (std::uint32_t i = 0; i < shape.slot_count; ++i) {
    const std::uint32_t sequence = shape.first_sequence + i;
    slots[sequence & (shape.slot_count - 1)].sequence = sequence - shape.slot_count;
  }
  return slots;
}

SendFifo local_send_fifo(const FifoShape& shape, std::uint16_t lane, SlotHeader* slots, Counter& consumed) {
  consumed.value = shape.first_sequence;
  SendFifo fifo;
  fifo.slots = slots;
  fifo.consumed = &consumed;
  fifo.next = shape.first_sequence;
  fifo.slot_count = shape.slot_count;
  fifo.slot_bytes = shape.slot_bytes;
  fifo.lane = lane;
  fifo.by_reference = true;
  return fifo;
}

void set_staging(SendFifo& fifo, const LocalStaging& staging) {
  fifo.staging = staging.data();
  fifo.staging_region = kLocalAddress;
  fifo.staging_offset = reinterpret_cast<std::uintptr_t>(staging.data());
}

RecvFifo local_recv_fifo(const FifoShape& shape, std::uint16_t lane, const SlotHeader* slots, Counter& consumed) {
  consumed.value = shape.first_sequence;
  RecvFifo fifo;
  fifo.slots = slots;
  fifo.consumed = &consumed;
  fifo.next = shape.first_sequence;
  fifo.slot_count = shape.slot_count;
  fifo.lane = lane;
  return fifo;
}

}  // namespace wreath
