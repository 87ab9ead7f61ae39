// Ring reduce-scatter: the sum of each block goes once around the ring and ends at the block's rank (Patarasuk and
// Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009).
// n ranks, S bytes in all blocks: n-1 steps; every rank sends, receives and reduces (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_ring_reduce_scatter(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  reduce_around(schedule.lane(), Ring::of(problem, me));
  return schedule;
}

}  // namespace

extern constexpr Algorithm kRingReduceScatter{.name = "ring",
                                              .collective = Collective::ReduceScatter,
                                              .order = Order::Ring,
                                              .minimum_resident_lanes = 1,
                                              .traits = kPartialMessages | kVarying,
                                              .supports = any_ranks,
                                              .build = build_ring_reduce_scatter,
                                              .cost = cost_of_blocks_in_turns};

}  // namespace wreath
