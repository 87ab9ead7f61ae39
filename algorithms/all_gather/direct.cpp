// The direct all-gather (the linear algorithm) has every rank hand its block to all others. It has the fewest steps
// where all ranks reach each other directly.
// The cost for n ranks and S bytes in all blocks is 1 step. Every rank sends and receives (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule direct_all_gather(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const std::vector<Rank> peers = others(n, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& give = schedule.lane(0);
  Lane& take = schedule.lane(1);

  give.send_all(peers, input(me));
  for (const Rank peer : peers) take.recv(peer, output(peer), {.lane = give.number()});
  schedule.lane(2).copy(input(me), output(me));
  return schedule;
}

Cost direct_all_gather_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n == 1 ? 0 : 1, (n - 1.0) / n};
}

}  // namespace wreath
