// Direct reduce: the root gets every input and sums them at once (the linear algorithm, with one rounding).
// n ranks, S bytes: 1 step; every other rank sends S, the root receives and reduces (n-1) S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_direct_reduce(const Problem& problem, Rank me) {
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

Cost cost_of_direct_reduce(const Problem& problem) {
  const int steps = problem.ranks == 1 ? 0 : 1;
  return {steps, static_cast<double>(steps)};
}

}  // namespace

extern constexpr Algorithm kDirectReduce{.name = "direct",
                                         .collective = Collective::Reduce,
                                         .order = Order::Canonical,
                                         .minimum_resident_lanes = 1,
                                         .traits = 0,
                                         .supports = ranks_of_one_load,
                                         .build = build_direct_reduce,
                                         .cost = cost_of_direct_reduce};

}  // namespace wreath
