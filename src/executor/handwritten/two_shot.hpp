// Runs two-shot all-reduce by hand. One lane sends tiles to the ranks that own them. Another lane sums a tile and sends
// the sum to all. The third lane takes each other rank's sum.
#pragma once

#include "src/executor/handwritten/lane.hpp"

namespace wreath {

// The FIFOs of inputs come first among a data lane's FIFOs, then those of sums. Peers are in the order of ranks where
// all are named at once. Otherwise they start with the rank after this one.
template <typename Processor>
WREATH_HOST_DEVICE inline Advance two_shot_all_reduce_by_hand(HandwrittenLane<Processor> lane) {
  enum Lanes : std::uint32_t { kScatter, kReduce, kLanes = 3 };
  const std::uint32_t n = lane.ranks();
  const std::uint32_t me = lane.rank();
  const std::uint32_t peers = n - 1;
  const std::uint32_t first = lane.data_lane() * 2 * peers;
  const auto peer = [&](std::uint32_t k) { return me + 1 + k < n ? me + 1 + k : me + 1 + k - n; };
  switch (lane.number() % kLanes) {
    case kScatter:
      return lane.tile(peers, [&](std::uint32_t k) { return lane.send({first + k, 1}, lane.input(peer(k))); });
    case kReduce:
      return lane.tile(1, [&](std::uint32_t) {
        return lane.load_reduce_send({first, peers}, static_cast<int>(me), lane.input(me), lane.output(me),
                                     {first + peers, peers});
      });
    default:
      return lane.tile(peers, [&](std::uint32_t k) { return lane.recv({first + peers + k, 1}, lane.output(peer(k))); });
  }
}

}  // namespace wreath
