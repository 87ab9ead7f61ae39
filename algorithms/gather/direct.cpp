// Direct gather: every rank sends its block to the root (the linear algorithm).
// n ranks, S bytes in all blocks: 1 step; every other rank sends S/n, the root receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_direct_gather(const Problem& problem, Rank me) {
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();
  if (me != problem.root) {
    lane.send(problem.root, input(me));
    return schedule;
  }
  lane.copy(input(me), output(me));
  for (const Rank peer : others(problem.ranks, me)) lane.recv(peer, output(peer));
  return schedule;
}

Cost cost_of_direct_gather(const Problem& problem) {
  if (problem.ranks == 1) return {};
  return {1, 1.0 / problem.ranks};
}

}  // namespace

extern constexpr Algorithm kDirectGather{.name = "direct",
                                         .collective = Collective::Gather,
                                         .order = Order::Canonical,
                                         .minimum_resident_lanes = 1,
                                         .traits = kVarying,
                                         .supports = any_ranks,
                                         .build = build_direct_gather,
                                         .cost = cost_of_direct_gather};

}  // namespace wreath
