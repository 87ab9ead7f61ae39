// The dissemination barrier has rounds: in round k every rank tells the rank 2^k after it what it has heard of. In the
// end every rank has heard of all. It is an all_reduce by max, which may count a rank twice.
// The paper is Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", International Journal of
// Parallel Programming 17(1), 1988.
// The cost for n ranks and a vector of S = 1 byte is ceil(log2 n) steps. Every rank sends ceil(log2 n) S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule dissemination_barrier(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(1);
  Lane& lane = schedule.lane();

  Chunk heard = input(0);
  for (int distance = 1; distance < n; distance *= 2) {
    const Chunk next = 2 * distance >= n ? output(0) : partial(0, 0);
    // The send is staged, because in place the last round replaces the input.
    lane.send_all_staged({ring.after(distance)}, heard);
    lane.recv_reduce(ring.before(distance), heard, next, distance == 1 ? Incoming{} : kPartial);
    heard = next;
  }
  return schedule;
}

Cost dissemination_barrier_cost(const Problem& problem) {
  const int rounds = ceiling_log2(problem.ranks);
  return {rounds, static_cast<double>(rounds)};
}

}  // namespace wreath
