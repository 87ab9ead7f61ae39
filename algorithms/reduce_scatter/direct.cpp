// The direct reduce-scatter has every rank send each block to the rank it belongs to, which sums all of them at once.
// This is the pairwise exchange of Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
// in MPICH", IJHPCA 19(1), 2005, without its rounds.
// The cost for n ranks and S bytes in all blocks is 1 step. Every rank sends and receives (n-1)/n S and reduces as
// much, rounding once.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule direct_reduce_scatter(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const std::vector<Rank> peers = others(n, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& scatter = schedule.lane(0);
  Lane& reduce = schedule.lane(1);

  for (const Rank peer : peers) scatter.send(peer, input(peer));
  reduce.load_reduce(peers, input(me), output(me), {.lane = scatter.number()});
  return schedule;
}

Cost direct_reduce_scatter_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n == 1 ? 0 : 1, (n - 1.0) / n};
}

}  // namespace wreath
