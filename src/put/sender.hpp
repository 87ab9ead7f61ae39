// The sending half of a link puts published messages into the peer's slots, and keeps what may have to be put again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/put/landings.hpp"
#include "src/put/lanes.hpp"
#include "src/put/queue.hpp"
#include "src/put/words.hpp"

namespace wreath {

class PutSender {
 public:
  PutSender(PutPort& port, const FifoShape& shape, WireLanes& wires, PutLanes& lanes, PutQueues& queues,
            PutLandings& landings)
      : port_(port),
        limits_(port.limits()),
        shape_(shape),
        wires_(wires),
        lanes_(lanes),
        queues_(queues),
        landings_(landings) {}

  // Puts as over a port of one adapter from now on, since the peer has no more: it expects no more parts.
  void on_one_rail();
  // Puts what may be put now, and tells credit that is due. Adds WantSlots to `words` where the peer's slots are not
  // known. Returns the bytes that the adapter took. Returns InvalidUsage for a slot that no pump could send.
  Result<std::size_t> send_some(std::vector<PutWord>& words);
  // Takes the end of a put of a message.
  void on_ended(const PutOwner& owner);
  // Takes how far the peer has consumed a lane. Returns PeerLost for a count that no correct peer tells.
  Status on_credit(const Told& told);
  // Takes the peer's slots. Returns Mismatch where others are known.
  Status on_slots(const HaveSlots& slots);
  // Returns the messages of each lane whose puts have ended.
  std::vector<LanePosition> ended() const;
  // Lets all messages be put again that the peer does not have, over new channels. Returns Mismatch for positions that
  // no correct peer has, and PeerLost where a message is gone.
  Status resume(std::span<const LanePosition> positions);
  // Makes each channel of these rails, a bit each, put nothing. The end of that put says that the channel works.
  void probe(std::uint32_t rails);
  // Counts the bytes of messages that were copied, and that the peer may not have.
  std::size_t unended_bytes() const;
  // Returns whether credit that is due must wait for the end of puts.
  bool credit_waits() const { return credit_waits_; }
  // Returns whether messages must be put again.
  bool repeats() const;

 private:
  Result<bool> send_next(PutLane& lane, std::vector<PutWord>& words);
  bool knows_slots(PutLane& lane, std::size_t bytes, std::vector<PutWord>& words) const;
  Status keep(PutLane& lane, const SlotHeader& slot);
  Status find_memory(PutLane& lane, const SlotHeader& slot, SentMessage& message);
  bool has_room(const PutLane& lane, std::uint32_t sequence, std::uint32_t bytes) const;
  PutQueue& data_queue(std::uint16_t lane, std::uint32_t sequence, std::uint32_t part, std::uint32_t bytes) const;
  Put nothing_to(const PutQueue& queue) const;
  Status put(PutLane& lane, std::uint32_t sequence);
  void put_data(PutLane& lane, std::uint32_t sequence, const NamedPlace* place);
  void release(PutLane& lane);
  Status resume_lane(PutLane& lane, const LanePosition& at);
  bool must_wait(const PutLane& lane, std::uint32_t consumed, const PutQueue& queue) const;
  void add_owed_credits();

  PutPort& port_;
  PutLimits limits_;
  const FifoShape& shape_;
  WireLanes& wires_;
  PutLanes& lanes_;
  PutQueues& queues_;
  PutLandings& landings_;
  std::size_t turn_ = 0;    // the lane that goes first, for fairness
  std::size_t copied_ = 0;  // bytes in this call that no doorbell told of
  bool credit_waits_ = false;
};

}  // namespace wreath
