// Messages may land where the receiver's steps want them, and are copied by nobody then. The receiver names the places
// of the next messages to the sender, by a put each, as soon as its lanes have posted them (wreath/fifo.hpp). The
// sender puts a large message to its place where it knows that in time, else to a slot.
//
// A place is named for one message, by its sequence. The receiver names a message's place anew for the one that is
// slot_count behind it, once it has consumed the first: the sender needs that name no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/put/lanes.hpp"
#include "src/put/queue.hpp"
#include "src/put/words.hpp"

namespace wreath {

// For smaller messages a copy costs less than the name of a place.
inline constexpr std::uint32_t kLeastLandedBytes = 16 * 1024;

// The name of a place: sequence, bytes, a checksum of the rest, the number of rails, and address and key by rail.
inline constexpr std::size_t kNameBytes = 24 + 16 * kMostRails;
struct PlaceName {
  std::uint32_t sequence = 0;
  std::uint32_t bytes = 0;
  RailMemories by_rail;
};
// Writes kNameBytes bytes at most, little-endian.
void write_name(const PlaceName& place, std::byte* name);

// A message that may land waits for its place, so long at most, or as long as its copy would take.
struct PlaceWaiting {
  // Takes WREATH_LANDING_WAIT_MS. A wait that a user asks for is always worth it.
  static Result<PlaceWaiting> read();

  std::int64_t most_ms = 2;
  std::int64_t spare_ns = 10'000;  // a wait is worth so much more than the copy that it saves
};

class PutLandings {
 public:
  PutLandings(PutPort& port, const FifoShape& shape, WireLanes& wires, PutLanes& lanes, PutQueues& queues,
              const PlaceWaiting& waiting)
      : port_(port), shape_(shape), wires_(wires), lanes_(lanes), queues_(queues), waiting_(waiting) {}

  // ---- the receiving end ----

  // Takes the memory where the peer wants places named. Returns Mismatch where other memory is known.
  Status on_want(const WantSlots& word);
  // Names the places that lanes have posted since the last call. Where a place is not registered, the peer is told once
  // that it need not wait.
  void name_places();
  // Takes the end of the put of a name.
  void on_ended(const PutOwner& owner) { naming(owner.lane, owner.sequence) = 0; }
  // Returns where message `sequence` of a lane has landed. Returns null where no place was posted for so many bytes.
  const std::byte* place_of(const PutLane& lane, std::uint32_t sequence, std::uint32_t bytes) const;

  // ---- the sending end ----

  // Makes the memory where the peer names places.
  Status prepare(PutLane& lane) const;
  // Takes a told word of a place, whose lane is below kMostLanes here. Returns PeerLost with the field for something
  // that no correct peer tells or names.
  Status on_told(const Told& told);
  // Forgets the name that was there before the one of message `sequence`, which is put now: sequences begin again. The
  // message slot_count before it is not put again, since its slot of the executor was free.
  void forget_before(PutLane& lane, std::uint32_t sequence) const {
    NamedPlace& place = lane.places[sequence & (shape_.slot_count - 1)];
    if (place.sequence != sequence) place = {};
    if (lane.refused && static_cast<std::int32_t>(sequence - lane.refused_from) > 0) lane.refused_from = sequence;
  }
  // Returns the place of a message of the lane; null where none was named.
  const NamedPlace* find(const PutLane& lane, std::uint32_t sequence, std::uint32_t bytes) const;
  // Returns whether the lane's next message waits for its place.
  bool waits(PutLane& lane, const SlotHeader& slot);
  // Returns whether a message waits: time may end that without an event.
  bool any_waits() const;

  // Forgets the puts that went over the old channels, and names anew what they may have named.
  void begin_again();

 private:
  std::uint8_t& naming(std::uint16_t lane, std::uint32_t sequence) {
    return lanes_[lane]->naming[sequence & (shape_.slot_count - 1)];
  }
  bool name_place(PutLane& lane, std::uint32_t sequence);
  void put_name(PutLane& lane, std::uint32_t sequence, std::uint32_t bytes, const RailMemories* place);
  void lift_refusal(PutLane& lane, std::uint32_t next, std::uint32_t sequence) const;
  Result<bool> take_name(PutLane& lane, std::uint32_t sequence);
  void charge(PutLane& lane, std::int64_t waited_ns, std::uint32_t saved_bytes) const;
  bool is_late(const PutLane& lane, const Told& told) const;
  bool goes_on(PutLane& lane, const SlotHeader& slot);

  PutPort& port_;
  const FifoShape& shape_;
  WireLanes& wires_;
  PutLanes& lanes_;
  PutQueues& queues_;
  const PlaceWaiting waiting_;
};

}  // namespace wreath
