// The receiving half of a link counts the parts of messages that the peer tells of, checks whole messages, and
// publishes them in their order. Nothing from the peer is used before it was checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/put/landings.hpp"
#include "src/put/lanes.hpp"
#include "src/put/words.hpp"

namespace wreath {

class PutReceiver {
 public:
  PutReceiver(PutPort& port, const FifoShape& shape, PutLanes& lanes, const PutLandings& landings)
      : port_(port), shape_(shape), lanes_(lanes), landings_(landings) {}

  // Takes what a put of the peer told over a rail, unless it is credit. Returns the bytes that were published. Returns
  // PeerLost with the field for something that no correct peer tells or puts.
  Result<std::size_t> on_told(std::size_t rail, const Told& told);
  // Returns the slots that the peer wants, and makes them where there are none.
  Result<HaveSlots> on_want(const WantSlots& word);
  // Returns whether the messages are here as a whole that the peer's puts have brought, as it says.
  bool has(std::span<const LanePosition> ended) const;
  // Says how far the lanes are that have slots. Forgets the parts of messages that are not published: the peer puts
  // them again. The peer knows of all that was consumed then.
  std::vector<LanePosition> begin_again();

 private:
  Status check_told(const PutLane& lane, const Told& told) const;
  // Publishes the lane's next message. Returns its bytes with its header's, or 0 where it is not here as a whole.
  Result<std::size_t> publish_next(PutLane& lane);
  Result<const std::byte*> data_of(const PutLane& lane, const PutHeader& header) const;

  PutPort& port_;
  const FifoShape& shape_;
  PutLanes& lanes_;
  const PutLandings& landings_;
};

}  // namespace wreath
