// A lane of a link that puts: slots for the peer's messages, and what the pump knows of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/fifo/wire/lanes.hpp"
#include "src/put/message.hpp"
#include "src/put/port.hpp"

namespace wreath {

// A message between the sequences of the lane's window that was put.
struct SentMessage {
  const std::byte* data = nullptr;  // of a large message
  PortMemory memory;                // where that is
  std::uint32_t place = 0;          // among the peer's large slots
  std::uint32_t bytes = 0;
  // Its puts that have not ended. A message that must be put again has one at least.
  std::uint32_t puts = 0;
};

// A peer's slots for messages of a lane, as far as this end knows them.
struct PeerSlots {
  RailMemories small;  // empty where they are not known
  RailMemories large;
  bool wants_small = false;  // asked for
  bool wants_large = false;
};

struct PutLane {
  PutLane(PutPort& port, WireLane& shared, const FifoShape& shape)
      : wire(shared),
        mask(window_messages(shape) - 1),
        put_next(shape.first_sequence),
        ended(shape.first_sequence),
        outgoing(port),
        small(port),
        large(port),
        sent(mask + 1),
        parts(mask + 1) {}

  WireLane& wire;
  const std::uint32_t mask;  // of a sequence: its place in a window

  // The messages before this one were put over the channels of now. It is wire.sent.end() where nothing must be put
  // again.
  std::uint32_t put_next;
  // The puts of all messages before this one have ended.
  std::uint32_t ended;
  // Credit puts that have not ended.
  std::uint32_t credits = 0;
  // Holds headers, and data that is copied beside them, until the peer has consumed the message.
  SlotMemory outgoing;
  PeerSlots peer;

  // The peer puts here. Where a message is large, the small slot has its header only.
  SlotMemory small;
  SlotMemory large;

  // Returns the message of a sequence in the window.
  SentMessage& message(std::uint32_t sequence) { return sent[sequence & mask]; }
  const SentMessage& message(std::uint32_t sequence) const { return sent[sequence & mask]; }
  std::byte* outgoing_slot(std::uint32_t sequence) const {
    return outgoing.data() + (sequence & mask) * kSmallSlotBytes;
  }

  std::vector<SentMessage> sent;    // by sequence
  std::vector<std::uint8_t> parts;  // told by the peer, a bit each, by sequence
};

using PutLanes = std::vector<std::unique_ptr<PutLane>>;

// Makes slots for the peer's messages where there are none, and registers them.
Status make_slots(PutLane& lane, const FifoShape& shape, bool large);

}  // namespace wreath
