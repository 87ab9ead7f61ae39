// The ring all-gather sends every block once around the ring.
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes in all blocks is n-1 steps. Every rank sends and receives (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule ring_all_gather(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  const Rank next = ring.after(1), previous = ring.before(1);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.send(next, input(me));
  lane.copy(input(me), output(me));
  for (int k = 1; k < n; ++k) {
    lane.recv(previous, output(ring.before(k)));
    if (k < n - 1) lane.send(next, output(ring.before(k)));
  }
  return schedule;
}

Cost ring_all_gather_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n - 1, (n - 1.0) / n};
}

}  // namespace wreath
