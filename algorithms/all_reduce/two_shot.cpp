// Two-shot all-reduce: every rank collects and sums one part, then hands it to all: a direct-exchange
// reduce-scatter and all-gather (Rabenseifner's scheme, "Optimization of collective reduction operations",
// ICCS 2004, with its log-step phases replaced by direct exchange, as on a full mesh or in shared memory).
// n ranks, S bytes: 2 steps; every rank sends and receives 2(n-1)/n S and reduces (n-1)/n S, rounding like the tree.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_two_shot_all_reduce(const Problem& problem, Rank me) {
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

Cost cost_of_two_shot_all_reduce(const Problem& problem) {
  const int n = problem.ranks;
  return {n == 1 ? 0 : 2, 2.0 * (n - 1) / n};
}

}  // namespace

extern constexpr Algorithm kTwoShotAllReduce{.name = "two_shot",
                                             .collective = Collective::AllReduce,
                                             .order = Order::Canonical,
                                             .minimum_resident_lanes = 3,
                                             .traits = 0,
                                             .supports = ranks_of_one_load,
                                             .build = build_two_shot_all_reduce,
                                             .cost = cost_of_two_shot_all_reduce};

}  // namespace wreath
