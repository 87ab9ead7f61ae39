// Direct scatter: the root sends every rank its block (the linear algorithm).
// n ranks, S bytes in all blocks: 1 step; the root sends (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_direct_scatter(const Problem& problem, Rank me) {
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();
  if (me != problem.root) {
    lane.recv(problem.root, output(me));
    return schedule;
  }
  for (const Rank peer : others(problem.ranks, me)) lane.send(peer, input(peer));
  lane.copy(input(me), output(me));
  return schedule;
}

}  // namespace

extern constexpr Algorithm kDirectScatter{.name = "direct",
                                          .collective = Collective::Scatter,
                                          .order = Order::Canonical,
                                          .minimum_resident_lanes = 1,
                                          .traits = kVarying,
                                          .supports = any_ranks,
                                          .build = build_direct_scatter,
                                          .cost = cost_of_blocks_at_once};

}  // namespace wreath
