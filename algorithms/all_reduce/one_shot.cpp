// One-shot all-reduce: every rank gets every input and sums them itself (the all-to-all algorithm of small
// messages; Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// IJHPCA 19(1), 2005, compare it with the log-step ones).
// n ranks, S bytes: 1 step; every rank sends one message of S to n-1 readers, receives and reduces (n-1) S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_one_shot_all_reduce(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const std::vector<Rank> peers = others(n, me);
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  // The send is staged, and both lines are in one lane. In place the sum replaces the input. By then the input must
  // have left (lane order), and slower ranks must not need it any more (their copy is staged).
  lane.send_all_staged(peers, input(0));
  lane.load_reduce(peers, input(0), output(0));
  return schedule;
}

Cost cost_of_one_shot_all_reduce(const Problem& problem) {
  return {problem.ranks == 1 ? 0 : 1, static_cast<double>(problem.ranks - 1)};
}

}  // namespace

extern constexpr Algorithm kOneShotAllReduce{.name = "one_shot",
                                             .collective = Collective::AllReduce,
                                             .order = Order::Canonical,
                                             .minimum_resident_lanes = 1,
                                             .traits = 0,
                                             .supports = ranks_of_one_load,
                                             .build = build_one_shot_all_reduce,
                                             .cost = cost_of_one_shot_all_reduce};

}  // namespace wreath
