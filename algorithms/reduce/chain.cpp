// Chain reduce: the sum goes from rank to rank, tile after tile, and ends at the root (the broadcast pipeline run
// backwards; Barnett, Littlefield, Payne and van de Geijn, "Global combine on mesh architectures with wormhole
// routing", IPPS 1993). The chain follows the ranks from the one after the root.
// n ranks, S bytes: n-1 steps, of a tile each; every rank but the root sends S, every rank but the first reduces S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_chain_reduce(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  const Rank next = ring.after(1), previous = ring.before(1);
  const Rank first = (problem.root + 1) % n;
  Schedule schedule(1);
  Lane& lane = schedule.lane();

  Chunk sum = input(0);
  if (me != first) {
    sum = me == problem.root ? output(0) : partial(0, 0);
    lane.recv_reduce(previous, input(0), sum, previous == first ? Incoming{} : kPartial);
  }
  if (me != problem.root) lane.send(next, sum);
  return schedule;
}

}  // namespace

extern constexpr Algorithm kChainReduce{.name = "chain",
                                        .collective = Collective::Reduce,
                                        .order = Order::Ring,
                                        .minimum_resident_lanes = 1,
                                        .traits = kPartialMessages,
                                        .supports = any_ranks,
                                        .build = build_chain_reduce,
                                        .cost = cost_of_chain};

}  // namespace wreath
