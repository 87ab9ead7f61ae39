// The ring reduce-scatter sends the sum of each block once around the ring, to end at the block's rank.
// The paper is Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2),
// 2009.
// The cost for n ranks and S bytes in all blocks is n-1 steps. Every rank sends, receives and reduces (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule ring_reduce_scatter(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  const Rank next = ring.after(1), previous = ring.before(1);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.send(next, input(ring.before(1)));
  for (int k = 2; k < n; ++k) {
    lane.recv_reduce(previous, input(ring.before(k)), partial(0, ring.before(k)), k == 2 ? Incoming{} : kPartial);
    lane.send(next, partial(0, ring.before(k)));
  }
  lane.recv_reduce(previous, input(me), output(me), n == 2 ? Incoming{} : kPartial);
  return schedule;
}

Cost ring_reduce_scatter_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n - 1, (n - 1.0) / n};
}

}  // namespace wreath
