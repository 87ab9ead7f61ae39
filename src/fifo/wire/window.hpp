// A window says which messages of a lane may be outstanding at its receiver.
//
// A stream of small messages one way would wait for credit every slot_count of them. On a network, this is a round trip
// each time. Copied messages (kCopiedBytes) need little memory, so four times as many messages may be outstanding. At
// most slot_count of these may be larger ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "wreath/link.hpp"

namespace wreath {

// The largest message that is copied beside its header.
inline constexpr std::size_t kCopiedBytes = 4096;

// Returns the most messages of a lane that may be outstanding in all. It is a power of two.
constexpr std::uint32_t window_messages(const FifoShape& shape) { return 4 * shape.slot_count; }

// A window holds the messages between two sequences: messages that were sent and may not be consumed yet. Both ends
// keep a window.
class WireWindow {
 public:
  explicit WireWindow(const FifoShape& shape);

  std::uint32_t begin() const { return begin_; }
  std::uint32_t end() const { return end_; }
  std::uint32_t messages() const { return end_ - begin_; }
  // Returns the number of large messages before `sequence`, which is in the window or at its end.
  std::uint32_t large_before(std::uint32_t sequence) const;
  // Returns whether one more message of `bytes` bytes may be sent.
  bool has_room(std::size_t bytes) const;
  // Returns whether no message may be sent, or only small ones may.
  bool full() const { return messages() > mask_ || large_ == slots_; }
  // Returns whether the messages before `sequence` are half of the messages, or of the large ones, that fit.
  bool is_half(std::uint32_t sequence) const;
  // Returns whether the window is full, and has room for the kind of message that it refused once the messages before
  // `sequence` are gone.
  bool gains_room(std::uint32_t sequence) const;
  // Makes the message at end(), of `bytes` bytes, outstanding. The caller has checked has_room().
  void add(std::size_t bytes);
  // Removes the messages before `sequence`, which are done.
  void remove_before(std::uint32_t sequence);
  // Returns the number of large messages that were added, modulo slot_count. The next large message goes to that place.
  std::uint32_t large_place() const { return large_added_ & (slots_ - 1); }

 private:
  std::uint32_t slots_;
  std::uint32_t mask_;
  std::uint32_t begin_;
  std::uint32_t end_;
  std::uint32_t large_ = 0;
  std::uint32_t large_added_ = 0;
  std::unique_ptr<bool[]> is_large_;  // by sequence
};

}  // namespace wreath
