// Which messages of a lane may be outstanding at its receiver.
//
// A stream of small messages one way would wait for credit every slot_count of them: on a network, a round trip each
// time. Copied ones (kCopiedBytes) need little memory, so four times as many may be outstanding, of which
// slot_count may be larger ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "wreath/link.hpp"

namespace wreath {

// Messages of a lane that may be outstanding in all; a power of two.
constexpr std::uint32_t window_messages(const FifoShape& shape) { return 4 * shape.slot_count; }

// The messages between two sequences: those that were sent and are not known to be consumed. Both ends keep one.
class TcpWindow {
 public:
  explicit TcpWindow(const FifoShape& shape);

  std::uint32_t begin() const { return begin_; }
  std::uint32_t end() const { return end_; }
  std::uint32_t messages() const { return end_ - begin_; }
  // Large messages before `sequence`, which is in the window or at its end.
  std::uint32_t large_before(std::uint32_t sequence) const;
  // Whether one more message of `bytes` may be sent.
  bool has_room(std::size_t bytes) const;
  // Whether no message, or none but small ones, may be sent.
  bool full() const { return messages() > mask_ || large_ == slots_; }
  // The message at end(), of `bytes`, is outstanding. There was room.
  void add(std::size_t bytes);
  // The messages before `sequence` are done.
  void remove_before(std::uint32_t sequence);
  // Large messages that were added, modulo slot_count: where the next one lies.
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
