// A slot is filled by plain stores or past the caches, whichever takes less time on this machine for now.
//
// A plain store must first take its line back from the core that read the slot last. Between cores of one cache that is
// nearly free. Between two sockets, or two caches of one socket, it is the most expensive part of a message. Past the
// caches lines go to memory, and the reader fetches them there. This takes the same time everywhere. A virtual
// machine's cores move between near and far while a program runs, so nothing is assumed. Fills are timed now and then,
// and the other way is tried now and then (decision 0013).
//
// Plain stores follow the order of addresses, or take pages side by side. The second way brings data from memory
// sooner, and data from near caches later.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// Below this size the stores of a fill hide in the core's store buffer, so that no time can be measured.
inline constexpr std::size_t kLeastTimedFillBytes = 4096;
// Below this size pages side by side gain nothing.
inline constexpr std::size_t kLeastPagesFillBytes = std::size_t{32} << 10;

// Says when one of two ways is taken. The other way is taken from where the usual one takes longer by the first factor,
// and kept until it takes less than by the second one. Both are in percent.
struct FillRule {
  std::uint64_t taken_from;
  std::uint64_t kept_from;
  // A choice may change with each timed fill. Otherwise it changes only when the ways were timed side by side.
  bool between_trials;
};
// Past the caches the reader takes longer, too, by about the time of a fill. So this way must win by that much.
inline constexpr FillRule kPastCaches{250, 200, true};
inline constexpr FillRule kPages{108, 100, false};

// The way to make the next fill of at least kLeastTimedFillBytes, by its history.
struct FillTurn {
  bool other = false;
  bool timed = false;
};
FillTurn next_fill(const FillHistory& history) noexcept;

// Adds that fill to the history. `cycles` per KiB counts only where the fill was timed.
void add_fill(FillHistory& history, const FillRule& rule, FillTurn turn, std::uint64_t cycles) noexcept;

// Returns the history of messages of about `bytes` bytes past the caches or not. The size decides how long lines stay
// with a reader.
FillHistory& history_of(SendFifo& fifo, std::size_t bytes) noexcept;

// Puts one message into its slot, in one fill or several.
class SlotFill {
 public:
  // Begins a message that goes past the caches or not by one history, and takes pages side by side or not by the other.
  // Null: it does not.
  void begin(FillHistory* past_caches, FillHistory* pages = nullptr) {
    past_caches_ = past_caches;
    pages_ = pages;
  }
  // Begins the next message of `fifo`. Returns the message's place: a ping-pong slot that this rank holds, which plain
  // stores fill, or one in the staging memory, by its history.
  std::byte* begin(SendFifo& fifo, std::size_t bytes) noexcept;
  void fill(const CopyKernels& copies, std::byte* slot, const std::byte* source, std::size_t bytes);
  // Ends the message, after the last fill and before the message is published.
  void end(const CopyKernels& copies);

 private:
  FillHistory* past_caches_ = nullptr;
  FillHistory* pages_ = nullptr;
  bool stored_past_ = false;
};

}  // namespace wreath
