// The all-gather of Bruck has every rank pass on all blocks it has to the rank 1, 2, 4, ... before it. Blocks are named
// by rank, so nothing is left to rotate in the end.
// The paper is Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
// multiport message-passing systems", TPDS 8(11), 1997.
// The cost for n ranks and S bytes in all blocks is ceil(log2 n) steps. Every rank sends and receives (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule bruck_all_gather(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.copy(input(me), output(me));
  for (int distance = 1; distance < n; distance *= 2) {
    const int blocks = std::min(distance, n - distance);
    const Rank to = ring.before(distance), from = ring.after(distance);
    exchange(lane, to, chunks(Buffer::Output, stretch_of_ring(me, blocks, n)),
             {.from = from, .target = chunks(Buffer::Output, stretch_of_ring(from, blocks, n))});
  }
  return schedule;
}

Cost bruck_all_gather_cost(const Problem& problem) {
  const int n = problem.ranks;
  int steps = 0;
  for (int distance = 1; distance < n; distance *= 2) steps += messages(std::min(distance, n - distance));
  return {steps, (n - 1.0) / n};
}

}  // namespace wreath
