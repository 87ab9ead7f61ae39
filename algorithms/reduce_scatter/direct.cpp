// Direct reduce-scatter: every rank sends each block to the rank it belongs to, which sums all of them at once (the
// pairwise exchange of Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
// in MPICH", IJHPCA 19(1), 2005, without its rounds).
// n ranks, S bytes in all blocks: 1 step; every rank sends and receives (n-1)/n S and reduces as much, rounding once.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_direct_reduce_scatter(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const std::vector<Rank> peers = others(n, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& scatter = schedule.lane(0);
  Lane& reduce = schedule.lane(1);

  for (const Rank peer : peers) scatter.send(peer, input(peer));
  reduce.load_reduce(peers, input(me), output(me), {.lane = scatter.number()});
  return schedule;
}

}  // namespace

extern constexpr Algorithm kDirectReduceScatter{.name = "direct",
                                                .collective = Collective::ReduceScatter,
                                                .order = Order::Canonical,
                                                .minimum_resident_lanes = 2,
                                                .traits = kVarying,
                                                .supports = ranks_of_one_load,
                                                .build = build_direct_reduce_scatter,
                                                .cost = cost_of_blocks_at_once};

}  // namespace wreath
