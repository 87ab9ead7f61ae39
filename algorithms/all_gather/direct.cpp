// Direct all-gather: every rank hands its block to all others (the linear algorithm; the fewest steps where all ranks
// reach each other directly).
// n ranks, S bytes in all blocks: 1 step; every rank sends and receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_direct_all_gather(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const std::vector<Rank> peers = others(n, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& give = schedule.lane(0);
  Lane& take = schedule.lane(1);

  give.send_all(peers, input(me));
  for (const Rank peer : peers) take.recv(peer, output(peer), {.lane = give.number()});
  schedule.lane(2).copy(input(me), output(me));
  return schedule;
}

}  // namespace

extern constexpr Algorithm kDirectAllGather{.name = "direct",
                                            .collective = Collective::AllGather,
                                            .order = Order::Canonical,
                                            .minimum_resident_lanes = 2,
                                            .traits = kVarying,
                                            .supports = any_ranks,
                                            .build = build_direct_all_gather,
                                            .cost = cost_of_blocks_at_once};

}  // namespace wreath
