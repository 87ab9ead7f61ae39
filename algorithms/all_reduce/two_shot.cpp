// The two-shot all-reduce has every rank collect and sum one part, then hand it to all. This is a direct-exchange
// reduce-scatter and all-gather.
// The scheme is Rabenseifner's, "Optimization of collective reduction operations", ICCS 2004. Direct exchange replaces
// its log-step phases, as on a full mesh or in shared memory.
// The cost for n ranks and S bytes is 2 steps. Every rank sends and receives 2(n-1)/n S and reduces (n-1)/n S, rounding
// like the tree.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule two_shot_all_reduce(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const std::vector<Rank> peers = others(n, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& scatter = schedule.lane(0);
  Lane& reduce = schedule.lane(1);
  Lane& gather = schedule.lane(2);

  for (const Rank peer : peers) scatter.send(peer, input(peer));
  reduce.load_reduce(peers, input(me), output(me), {.lane = scatter.number()});
  reduce.send_all(peers, output(me));
  for (const Rank peer : peers) gather.recv(peer, output(peer), {.lane = reduce.number()});
  return schedule;
}

Cost two_shot_all_reduce_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n == 1 ? 0 : 2, 2.0 * (n - 1) / n};
}

}  // namespace wreath
