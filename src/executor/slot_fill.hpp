// How a slot is filled: by plain stores, or past the caches, whichever this machine takes less time for now.
//
// A plain store must first take its line back from the core that read the slot last. Between cores of one cache that is
// nearly free; between two sockets, or two caches of one socket, it is the dearest part of a message. Past the caches
// lines go to memory, and the reader fetches them there: the same time everywhere. A virtual machine's
// cores move between near and far while a program runs, so nothing is assumed: fills are timed now and then, and the
// other way is tried now and then (decision 0013).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// Below this the stores of a fill hide in the core's store buffer: no time can be measured.
inline constexpr std::size_t kLeastTimedFillBytes = 4096;

// What the history says of the next fill of at least kLeastTimedFillBytes.
struct FillTurn {
  bool past;
  bool timed;
};
FillTurn next_fill(const FillHistory& history) noexcept;

// Tells the history of that fill; `cycles` counts where it was timed.
void add_fill(FillHistory& history, FillTurn turn, std::uint64_t cycles, std::size_t bytes) noexcept;

// That of messages like one of `bytes` bytes: how long lines stay with a reader depends on their size.
FillHistory& history_of(SendFifo& fifo, std::size_t bytes) noexcept;

// One message's way into its slot, in one fill or several.
class SlotFill {
 public:
  void begin(FillHistory& history) { history_ = &history; }
  void fill(const CopyKernels& copies, std::byte* slot, const std::byte* source, std::size_t bytes);
  // After the last fill, before the message is published.
  void end(const CopyKernels& copies);

 private:
  FillHistory* history_ = nullptr;
  bool stored_past_ = false;
};

}  // namespace wreath
