// A window keeps counts, and a ring of marks for large messages.
#include "src/fifo/wire/window.hpp"

namespace wreath {

WireWindow::WireWindow(const FifoShape& shape)
    : slots_(shape.slot_count),
      mask_(window_messages(shape) - 1),
      begin_(shape.first_sequence),
      end_(shape.first_sequence),
      is_large_(std::make_unique<bool[]>(window_messages(shape))) {}

std::uint32_t WireWindow::large_before(std::uint32_t sequence) const {
  if (large_ == 0) return 0;
  std::uint32_t count = 0;
  for (std::uint32_t at = begin_; at != sequence; ++at) count += is_large_[at & mask_] ? 1U : 0U;
  return count;
}

bool WireWindow::has_room(std::size_t bytes) const {
  return messages() <= mask_ && (bytes <= kCopiedBytes || large_ < slots_);
}

bool WireWindow::is_half(std::uint32_t sequence) const {
  return (sequence - begin_) * 2 > mask_ || large_before(sequence) * 2 >= slots_;
}

bool WireWindow::gains_room(std::uint32_t sequence) const {
  return (messages() > mask_ && sequence != begin_) || (large_ == slots_ && large_before(sequence) > 0);
}

void WireWindow::add(std::size_t bytes) {
  const bool large = bytes > kCopiedBytes;
  is_large_[end_++ & mask_] = large;
  if (!large) return;
  ++large_;
  ++large_added_;
}

void WireWindow::remove_before(std::uint32_t sequence) {
  large_ -= large_before(sequence);
  begin_ = sequence;
}

}  // namespace wreath
