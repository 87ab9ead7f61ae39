// A window keeps counts, and a ring of marks for large messages.
#include "transports/tcp/window.hpp"

#include "transports/tcp/wire.hpp"

namespace wreath {

TcpWindow::TcpWindow(const FifoShape& shape)
    : slots_(shape.slot_count),
      mask_(window_messages(shape) - 1),
      begin_(shape.first_sequence),
      end_(shape.first_sequence),
      is_large_(std::make_unique<bool[]>(window_messages(shape))) {}

std::uint32_t TcpWindow::large_before(std::uint32_t sequence) const {
  if (large_ == 0) return 0;
  std::uint32_t count = 0;
  for (std::uint32_t at = begin_; at != sequence; ++at) count += is_large_[at & mask_] ? 1U : 0U;
  return count;
}

bool TcpWindow::has_room(std::size_t bytes) const {
  return messages() <= mask_ && (bytes <= kCopiedBytes || large_ < slots_);
}

void TcpWindow::add(std::size_t bytes) {
  const bool large = bytes > kCopiedBytes;
  is_large_[end_++ & mask_] = large;
  if (!large) return;
  ++large_;
  ++large_added_;
}

void TcpWindow::remove_before(std::uint32_t sequence) {
  large_ -= large_before(sequence);
  begin_ = sequence;
}

}  // namespace wreath
