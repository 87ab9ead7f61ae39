// Direct all-to-all: every rank sends all its blocks, then takes what comes (the linear algorithm; Thakur, Rabenseifner
// and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005). Rank r starts with
// rank r + 1, so that not all send to one.
// n ranks, S bytes of Input: 1 step; every rank sends and receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_direct_all_to_all(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& give = schedule.lane(0);
  Lane& take = schedule.lane(1);

  for (int k = 1; k < n; ++k) {
    const Rank to = ring.after(k), from = ring.before(k);
    give.send(to, input(to));
    take.recv(from, output(from), {.lane = give.number()});
  }
  schedule.lane(2).copy(input(me), output(me));
  return schedule;
}

}  // namespace

extern constexpr Algorithm kDirectAllToAll{.name = "direct",
                                           .collective = Collective::AllToAll,
                                           .order = Order::Canonical,
                                           .minimum_resident_lanes = 2,
                                           .traits = kVarying,
                                           .supports = any_ranks,
                                           .build = build_direct_all_to_all,
                                           .cost = cost_of_blocks_at_once};

}  // namespace wreath
