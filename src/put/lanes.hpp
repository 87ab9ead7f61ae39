// A lane of a link that puts: slots for the peer's messages, and what the pump knows of its own.
#pragma once

#include <array>
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
  bool landed = false;  // it goes to the place that the peer has named
};

// The place where the peer wants a message of this end.
struct NamedPlace {
  std::uint32_t sequence = 0;
  std::uint32_t bytes = 0;
  bool refused = false;  // there is none
  std::array<RemoteMemory, kMostRails> by_rail{};
};

// A peer's slots for messages of a lane, as far as this end knows them.
struct PeerSlots {
  RailMemories small;  // empty where they are not known
  RailMemories large;
  RailMemories places;       // here the peer wants the places of its messages named; empty where it has said nothing
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
        names(port),
        sent(mask + 1),
        parts(mask + 1),
        rails(mask + 1),
        landings(shape.slot_count),
        places(shape.slot_count),
        naming(shape.slot_count),
        named(shape.first_sequence) {
    wire.recv.landing = landings.data();
    wire.recv.landings = shape.slot_count;
    wire.recv.posted = shape.first_sequence;
  }

  WireLane& wire;
  const std::uint32_t mask;  // of a sequence: its place in a window

  // The messages before this one were put over the channels of now. It is wire.sent.end() where nothing must be put
  // again.
  std::uint32_t put_next;
  // The puts of all messages before this one have ended.
  std::uint32_t ended;
  // The sequences that credit puts tell which have not ended, the oldest first.
  std::vector<std::uint32_t> credits;
  // Holds headers, and data that is copied beside them, until the peer has consumed the message.
  SlotMemory outgoing;
  PeerSlots peer;

  // The peer puts here. Where a message is large, the small slot has its header only.
  SlotMemory small;
  SlotMemory large;

  // In the first half the peer names the places where it wants messages of this end. In the second half this end writes
  // down the places that it names to the peer.
  SlotMemory names;

  // Returns the message of a sequence in the window.
  SentMessage& message(std::uint32_t sequence) { return sent[sequence & mask]; }
  const SentMessage& message(std::uint32_t sequence) const { return sent[sequence & mask]; }
  std::byte* outgoing_slot(std::uint32_t sequence) const {
    return outgoing.data() + (sequence & mask) * kSmallSlotBytes;
  }

  std::vector<SentMessage> sent;    // by sequence
  std::vector<std::uint8_t> parts;  // told by the peer, a bit each, by sequence
  std::vector<std::uint8_t> rails;  // that told of them, a bit each, by sequence

  // The places of messages, by sequence: where lanes here want those of the peer, and where the peer wants those of
  // this end.
  std::vector<Landing> landings;
  std::vector<NamedPlace> places;
  std::vector<std::uint8_t> naming;  // 1 while the put of a name has not ended
  std::uint32_t named;               // the posted places before this message were named, or had no need to be
  bool declined = false;             // the peer was told that it need not wait for places
  // Messages do not wait where the peer has said that there are no places, from this one on.
  bool refused = false;
  std::uint32_t refused_from = 0;
  // After one whose wait was not worth it so many others go without, and ever more.
  std::uint32_t skips = 0;
  std::uint32_t skips_next = 1;
  std::int64_t awaited_since_ns = 0;  // 0: no message waits
  std::int64_t awaited_ns = 0;        // the one that waits does so no longer
};

using PutLanes = std::vector<std::unique_ptr<PutLane>>;

// Makes slots for the peer's messages where there are none, and registers them.
Status make_slots(PutLane& lane, const FifoShape& shape, bool large);

}  // namespace wreath
