// Pairwise all-to-all: in round k every rank sends to the rank k after it and receives from the rank k before it
// (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1),
// 2005). One message in and one out at a time: no rank is flooded.
// n ranks, S bytes of Input: n-1 steps; every rank sends and receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_pairwise_all_to_all(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  for (int k = 1; k < n; ++k) {
    const Rank to = ring.after(k), from = ring.before(k);
    lane.send(to, input(to));
    lane.recv(from, output(from));
  }
  lane.copy(input(me), output(me));
  return schedule;
}

}  // namespace

extern constexpr Algorithm kPairwiseAllToAll{.name = "pairwise",
                                             .collective = Collective::AllToAll,
                                             .order = Order::Canonical,
                                             .minimum_resident_lanes = 1,
                                             .traits = kVarying,
                                             .supports = any_ranks,
                                             .build = build_pairwise_all_to_all,
                                             .cost = cost_of_blocks_in_turns};

}  // namespace wreath
