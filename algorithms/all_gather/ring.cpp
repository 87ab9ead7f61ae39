// Ring all-gather: every block goes once around the ring (Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", IJHPCA 19(1), 2005).
// n ranks, S bytes in all blocks: n-1 steps; every rank sends and receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_ring_all_gather(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  const Rank next = ring.after(1), previous = ring.before(1);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.send(next, input(me));
  lane.copy(input(me), output(me));
  for (int k = 1; k < n; ++k) {
    lane.recv(previous, output(ring.before(k)));
    if (k < n - 1) lane.send(next, output(ring.before(k)));
  }
  return schedule;
}

Cost cost_of_ring_all_gather(const Problem& problem) {
  const int n = problem.ranks;
  return {n - 1, (n - 1.0) / n};
}

}  // namespace

extern constexpr Algorithm kRingAllGather{.name = "ring",
                                          .collective = Collective::AllGather,
                                          .order = Order::Canonical,
                                          .minimum_resident_lanes = 1,
                                          .traits = kVarying,
                                          .supports = any_ranks,
                                          .build = build_ring_all_gather,
                                          .cost = cost_of_ring_all_gather};

}  // namespace wreath
