// A slot is filled by plain stores or past the caches, whichever takes less time on this machine for now.
//
// A plain store must first take its line back from the core that read the slot last. Between cores of one cache that is
// nearly free. Between two sockets, or two caches of one socket, it is the most expensive part of a message. Past the
// caches lines go to memory, and the reader fetches them there. This takes the same time everywhere. A virtual
// machine's cores move between near and far while a program runs, so nothing is assumed. Fills are timed now and then,
// and the other way is tried now and then (decision 0013).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// Below this size the stores of a fill hide in the core's store buffer, so that no time can be measured.
inline constexpr std::size_t kLeastTimedFillBytes = 4096;

// The way to make the next fill of at least kLeastTimedFillBytes, by its history.
struct FillTurn {
  bool past;
  bool timed;
};
FillTurn next_fill(const FillHistory& history) noexcept;

// Adds that fill to the history. `cycles` counts only where the fill was timed.
void add_fill(FillHistory& history, FillTurn turn, std::uint64_t cycles, std::size_t bytes) noexcept;

// Returns the history of messages of about `bytes` bytes. The size decides how long lines stay with a reader.
FillHistory& history_of(SendFifo& fifo, std::size_t bytes) noexcept;

// Puts one message into its slot, in one fill or several.
class SlotFill {
 public:
  // Begins a message that goes the way of `history`; null: by plain stores.
  void begin(FillHistory* history) { history_ = history; }
  // Begins the next message of `fifo`. Returns the message's place: a ping-pong slot that this rank holds, which plain
  // stores fill, or one in the staging memory, by its history.
  std::byte* begin(SendFifo& fifo, std::size_t bytes) noexcept;
  void fill(const CopyKernels& copies, std::byte* slot, const std::byte* source, std::size_t bytes);
  // Ends the message, after the last fill and before the message is published.
  void end(const CopyKernels& copies);

 private:
  FillHistory* history_ = nullptr;
  bool stored_past_ = false;
};

}  // namespace wreath
