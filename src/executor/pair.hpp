// One small message out and one in, as plain code over their FIFOs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "src/executor/try_step.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

struct OutgoingMessage {
  SendFifo* fifo = nullptr;  // of a peer that maps this rank's memory, with staging; null: there is none
  const std::byte* data = nullptr;
  std::size_t bytes = 0;  // 1 to the FIFO's slot_bytes
  std::uint32_t signature = 0;
  std::uint16_t epoch = 0;
};

struct IncomingMessage {
  RecvFifo* fifo = nullptr;  // null: there is none
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t signature = 0;
  std::uint16_t epoch = 0;
};

// Publishes the message, a tiny one in its header. Requires has_credit(). What a lane of one send step does.
void publish_message(const OutgoingMessage& message, const CopyKernels& copies);

// Done: it was there, and is taken. Blocked: not there yet, or not to be taken so: its header, its place or the way to
// it is another than expected, which the lane of a receive step finds and names. Nothing is changed then.
Advance take_message(const IncomingMessage& message, const CopyKernels& copies);

}  // namespace wreath
