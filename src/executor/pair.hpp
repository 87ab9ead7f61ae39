// Sends one small message and takes one, as plain code over their FIFOs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "src/executor/try_step.hpp"
#include "wreath/fifo.hpp"

namespace wreath {

// A message of up to so many bytes goes into its header, and needs no staging.
inline constexpr std::size_t kHeaderBytes = sizeof(SlotHeader::data);

struct OutgoingMessage {
  // The FIFO of a peer that maps this rank's memory, which has staging where the message needs it, or of a wire. It is
  // null where there is no message.
  SendFifo* fifo = nullptr;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;  // 1 to the FIFO's slot_bytes
  std::uint32_t signature = 0;
  std::uint16_t epoch = 0;
  bool lands = false;  // over a wire: its receiver has a place for it
};

struct IncomingMessage {
  RecvFifo* fifo = nullptr;  // null: there is none
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t signature = 0;
  std::uint16_t epoch = 0;
};

// Publishes the message. Requires has_credit(). It does the same as a lane of one send
// step.
void publish_message(const OutgoingMessage& message, const CopyKernels& copies);

// Prepares the next message while one is on its way. It looks for room, and takes the cache line of the next header
// back from its last reader. Otherwise the next message would wait for both.
void prepare_next(SendFifo& fifo);

// Takes the message and returns Done. Returns Blocked, and changes nothing, where the message is not there yet or
// cannot be taken in this way. In the second case its header, its place or the way to it is not the expected one. The
// lane of a receive step finds and names the difference.
Advance take_message(const IncomingMessage& message, const CopyKernels& copies);

}  // namespace wreath
