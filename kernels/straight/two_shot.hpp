// Two-shot all-reduce by hand: in turns a tile is sent to whom it belongs, one is summed and sent to all, and one of
// each other's sums is taken.
#pragma once

#include "kernels/straight/strand.hpp"

namespace wreath {

// Of a data lane's FIFOs those of inputs come first, then those of sums. Peers are in the order of ranks where all are
// named at once, else they start with the rank after this one.
template <typename Processor>
WREATH_HOST_DEVICE inline Advance straight_two_shot_all_reduce(const StraightTurn<Processor>& turn) {
  using Words = Strand<Processor>;
  enum Strands : std::uint32_t { kScatter, kReduce, kStrands = 3 };
  Words lane(turn);
  const auto n = static_cast<std::uint32_t>(turn.ranks);
  const auto me = static_cast<std::uint32_t>(turn.me);
  const std::uint32_t peers = n - 1;
  const std::uint32_t first = turn.lane.data_lane * 2 * peers;
  const auto peer = [&](std::uint32_t k) { return me + 1 + k < n ? me + 1 + k : me + 1 + k - n; };
  switch (turn.lane.number % kStrands) {
    case kScatter:
      return lane.tile(peers, [&](std::uint32_t k) { return lane.send({first + k, 1}, Words::input(peer(k))); });
    case kReduce:
      return lane.tile(1, [&](std::uint32_t) {
        return lane.load_reduce_send({first, peers}, turn.me, Words::input(me), Words::output(me),
                                     {first + peers, peers});
      });
    default:
      return lane.tile(peers, [&](std::uint32_t k) {
        return lane.recv({first + peers + k, 1}, Words::output(peer(k)));
      });
  }
}

}  // namespace wreath
