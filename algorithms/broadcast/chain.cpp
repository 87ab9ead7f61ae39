// The chain broadcast sends the vector from rank to rank, tile after tile (the pipeline of van de Geijn and others).
// The chain starts at the root and follows the ranks.
// The paper is Barnett, Littlefield, Payne and van de Geijn, "Global combine on mesh architectures with wormhole
// routing", IPPS 1993.
// The cost for n ranks and S bytes is n-1 steps, of a tile each. Every rank but the last sends S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule chain_broadcast(const Problem& problem, Rank me) {
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

Cost chain_broadcast_cost(const Problem& problem) { return {problem.ranks - 1, problem.ranks == 1 ? 0.0 : 1.0}; }

}  // namespace wreath
