// The direct broadcast (the linear algorithm) has the root hand the vector to all. Where memory is shared, it is one
// message that all read.
// The cost for n ranks and S bytes is 1 step. The root sends (n-1) S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule direct_broadcast(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  if (me == problem.root) {
    lane.send_all(others(problem.ranks, me), input(0));
    lane.copy(input(0), output(0));
  } else {
    lane.recv(problem.root, output(0));
  }
  return schedule;
}

Cost direct_broadcast_cost(const Problem& problem) { return {problem.ranks == 1 ? 0 : 1, problem.ranks - 1.0}; }

}  // namespace wreath
