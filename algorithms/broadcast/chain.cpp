// Chain broadcast: the vector goes from rank to rank, tile after tile (the pipeline of van de Geijn and others; see
// Barnett, Littlefield, Payne and van de Geijn, "Global combine on mesh architectures with wormhole routing", IPPS
// 1993). The chain starts at the root and follows the ranks.
// n ranks, S bytes: n-1 steps, of a tile each; every rank but the last sends S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_chain_broadcast(const Problem& problem, Rank me) {
  const Ring ring = Ring::of(problem, me);
  const Rank next = ring.after(1), previous = ring.before(1);
  const bool root = me == problem.root;
  Schedule schedule(1);
  Lane& lane = schedule.lane();

  if (!root) lane.recv(previous, output(0));
  if (next != problem.root) lane.send(next, root ? input(0) : output(0));
  if (root) lane.copy(input(0), output(0));
  return schedule;
}

}  // namespace

extern constexpr Algorithm kChainBroadcast{.name = "chain",
                                           .collective = Collective::Broadcast,
                                           .order = Order::Canonical,
                                           .minimum_resident_lanes = 1,
                                           .traits = 0,
                                           .supports = any_ranks,
                                           .build = build_chain_broadcast,
                                           .cost = cost_of_chain};

}  // namespace wreath
