// FIFOs in memory of this process, for links whose messages a pump carries: their slots and staging.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "wreath/fifo.hpp"
#include "wreath/result.hpp"
#include "wreath/transport.hpp"

namespace wreath {

// Memory for messages, absent until allocated. Pages that are not used cost nothing.
class LocalStaging {
 public:
  // Does nothing when it is there. System when memory is refused.
  Status allocate(std::size_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete[](data, kAlignment); }
  };
  std::unique_ptr<std::byte[], Free> data_;
};

// Of a FIFO whose every slot may hold a message of any size.
constexpr std::size_t staging_bytes(const FifoShape& shape) { return std::size_t{shape.slot_count} * shape.slot_bytes; }

// slot_count headers, none of which looks published.
std::unique_ptr<SlotHeader[]> make_local_slots(const FifoShape& shape);

// The executor's end of an outgoing FIFO over `slots`; the pump counts in `consumed`.
SendFifo local_send_fifo(const FifoShape& shape, std::uint16_t lane, SlotHeader* slots, Counter& consumed);
// Names `staging` in it, once allocated.
void set_staging(SendFifo& fifo, const LocalStaging& staging);
// The executor's end of an incoming FIFO over `slots`, which counts in `consumed`.
RecvFifo local_recv_fifo(const FifoShape& shape, std::uint16_t lane, const SlotHeader* slots, Counter& consumed);

}  // namespace wreath
