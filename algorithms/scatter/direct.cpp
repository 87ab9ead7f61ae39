// The direct scatter (the linear algorithm) has the root send every rank its block.
// The cost for n ranks and S bytes in all blocks is 1 step. The root sends (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule direct_scatter(const Problem& problem, Rank me) {
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();
  if (me != problem.root) {
    lane.recv(problem.root, output(me));
    return schedule;
  }
  for (const Rank peer : others(problem.ranks, me)) lane.send(peer, input(peer));
  lane.copy(input(me), output(me));
  return schedule;
}

Cost direct_scatter_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n == 1 ? 0 : 1, (n - 1.0) / n};
}

}  // namespace wreath
