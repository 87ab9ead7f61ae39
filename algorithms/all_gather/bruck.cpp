// Bruck's all-gather: a rank passes on all blocks it has to the rank 1, 2, 4, ... before it (Bruck, Ho, Kipnis, Upfal
// and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing systems",
// TPDS 8(11), 1997). Blocks are named by rank, so nothing is left to rotate in the end.
// n ranks, S bytes in all blocks: ceil(log2 n) steps; every rank sends and receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_bruck_all_gather(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.copy(input(me), output(me));
  for (int distance = 1; distance < n; distance *= 2) {
    const int blocks = std::min(distance, n - distance);
    const Rank to = ring.before(distance), from = ring.after(distance);
    exchange(lane, to, chunks(Buffer::Output, stretch_of_ring(me, blocks, n)),
             {.from = from, .target = chunks(Buffer::Output, stretch_of_ring(from, blocks, n))});
  }
  return schedule;
}

Cost cost_of_bruck_all_gather(const Problem& problem) {
  const int n = problem.ranks;
  int steps = 0;
  for (int distance = 1; distance < n; distance *= 2) steps += messages(std::min(distance, n - distance));
  return {steps, (n - 1.0) / n};
}

}  // namespace

extern constexpr Algorithm kBruckAllGather{.name = "bruck",
                                           .collective = Collective::AllGather,
                                           .order = Order::Canonical,
                                           .minimum_resident_lanes = 1,
                                           .traits = kSeveralParts | kVarying,
                                           .supports = any_ranks,
                                           .build = build_bruck_all_gather,
                                           .cost = cost_of_bruck_all_gather};

}  // namespace wreath
