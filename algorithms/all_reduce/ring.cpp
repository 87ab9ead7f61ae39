// Ring all-reduce: a ring reduce-scatter, then a ring all-gather (Patarasuk and Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009).
// n ranks, S bytes: 2(n-1) steps; every rank sends and receives 2(n-1)/n S and reduces (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_ring_all_reduce(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();

  reduce_around(lane, ring);
  lane.send(ring.after(1), output(me));
  pass_around(lane, ring);
  return schedule;
}

Cost cost_of_ring_all_reduce(const Problem& problem) {
  const int n = problem.ranks;
  return {2 * (n - 1), 2.0 * (n - 1) / n};
}

}  // namespace

extern constexpr Algorithm kRingAllReduce{.name = "ring",
                                          .collective = Collective::AllReduce,
                                          .order = Order::Ring,
                                          .minimum_resident_lanes = 1,
                                          .traits = kPartialMessages,
                                          .supports = any_ranks,
                                          .build = build_ring_all_reduce,
                                          .cost = cost_of_ring_all_reduce};

}  // namespace wreath
