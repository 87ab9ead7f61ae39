// The direct reduce (the linear algorithm, with one rounding) has the root get every input and sum all of them at once.
// The cost for n ranks and S bytes is 1 step. Every other rank sends S, and the root receives and reduces (n-1) S.
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
