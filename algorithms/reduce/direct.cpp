// Direct reduce: the root gets every input and sums them at once (the linear algorithm, with one rounding).
// n ranks, S bytes: 1 step; every other rank sends S, the root receives and reduces (n-1) S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule direct_reduce(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  if (me == problem.root) {
    lane.load_reduce(others(problem.ranks, me), input(0), output(0));
  } else {
    lane.send(problem.root, input(0));
  }
  return schedule;
}

Cost direct_reduce_cost(const Problem& problem) {
  const int steps = problem.ranks == 1 ? 0 : 1;
  return {steps, static_cast<double>(steps)};
}

}  // namespace wreath
