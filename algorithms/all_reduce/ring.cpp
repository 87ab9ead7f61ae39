// Ring all-reduce: a ring reduce-scatter, then a ring all-gather (Patarasuk and Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009).
// n ranks, S bytes: 2(n-1) steps; every rank sends and receives 2(n-1)/n S and reduces (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_ring_all_reduce(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  const Rank next = ring.after(1), previous = ring.before(1);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.send(next, input(ring.before(1)));
  // Partial sums travel. The last one to arrive completes the rank's own part.
  for (int k = 2; k <= n; ++k) {
    const Chunk sum = k == n ? output(me) : partial(0, ring.before(k));
    lane.recv_reduce(previous, input(ring.before(k)), sum, k == 2 ? Incoming{} : kPartial);
    lane.send(next, sum);
  }
  // Complete parts travel. Nobody needs the part that the next rank made.
  for (int k = 1; k < n; ++k) {
    lane.recv(previous, output(ring.before(k)));
    if (k < n - 1) lane.send(next, output(ring.before(k)));
  }
  return schedule;
}

Cost cost_of_ring_all_reduce(const Problem& problem) {
  const int n = problem.ranks;
  return {2 * (n - 1), 2.0 * (n - 1) / n};
}

}  // namespace

extern constexpr Algorithm kRingAllReduce{.name = "ring",
                                          .collective = Collective::AllReduce,
                                          .order = Order::Ring,
                                          .minimum_resident_lanes = 1,
                                          .traits = kPartialMessages,
                                          .supports = any_ranks,
                                          .build = build_ring_all_reduce,
                                          .cost = cost_of_ring_all_reduce};

}  // namespace wreath
