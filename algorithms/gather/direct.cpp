// The direct gather (the linear algorithm) has every rank send its block to the root.
// The cost for n ranks and S bytes in all blocks is 1 step. Every other rank sends S/n, and the root receives (n-1)/n
// S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule direct_gather(const Problem& problem, Rank me) {
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();
  if (me != problem.root) {
    lane.send(problem.root, input(me));
    return schedule;
  }
  lane.copy(input(me), output(me));
  for (const Rank peer : others(problem.ranks, me)) lane.recv(peer, output(peer));
  return schedule;
}

Cost direct_gather_cost(const Problem& problem) {
  if (problem.ranks == 1) return {};
  return {1, 1.0 / problem.ranks};
}

}  // namespace wreath
