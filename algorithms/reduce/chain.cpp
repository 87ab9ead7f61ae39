// The chain reduce sends the sum from rank to rank, tile after tile, until it ends at the root. It is the broadcast
// pipeline run backwards. The chain follows the ranks from the one after the root.
// The paper is Barnett, Littlefield, Payne and van de Geijn, "Global combine on mesh architectures with wormhole
// routing", IPPS 1993.
// The cost for n ranks and S bytes is n-1 steps, of a tile each. Every rank but the root sends S, and every rank but
// the first reduces S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule chain_reduce(const Problem& problem, Rank me) {
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

Cost chain_reduce_cost(const Problem& problem) { return {problem.ranks - 1, problem.ranks == 1 ? 0.0 : 1.0}; }

}  // namespace wreath
