// Ring all-gather: every block goes once around the ring (Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", IJHPCA 19(1), 2005).
// n ranks, S bytes in all blocks: n-1 steps; every rank sends and receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_ring_all_gather(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();

  lane.send(ring.after(1), input(me));
  lane.copy(input(me), output(me));
  pass_around(lane, ring);
  return schedule;
}

}  // namespace

extern constexpr Algorithm kRingAllGather{.name = "ring",
                                          .collective = Collective::AllGather,
                                          .order = Order::Canonical,
                                          .minimum_resident_lanes = 1,
                                          .traits = kVarying,
                                          .supports = any_ranks,
                                          .build = build_ring_all_gather,
                                          .cost = cost_of_blocks_in_turns};

}  // namespace wreath
