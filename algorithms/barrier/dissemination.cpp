// Dissemination barrier: in round k every rank tells the rank 2^k after it what it has heard of, and in the end
// everyone has heard of all (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", International
// Journal of Parallel Programming 17(1), 1988). An all_reduce by max, which may count a rank twice.
// n ranks, a vector of S = 1 byte: ceil(log2 n) steps; every rank sends ceil(log2 n) S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_dissemination_barrier(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(1);
  Lane& lane = schedule.lane();

  Chunk heard = input(0);
  for (int distance = 1; distance < n; distance *= 2) {
    const Chunk next = 2 * distance >= n ? output(0) : partial(0, 0);
    // The send is staged, because in place the last round replaces the input.
    lane.send_all_staged({ring.after(distance)}, heard);
    lane.recv_reduce(ring.before(distance), heard, next, distance == 1 ? Incoming{} : kPartial);
    heard = next;
  }
  return schedule;
}

Cost cost_of_dissemination_barrier(const Problem& problem) {
  const int rounds = ceiling_log2(problem.ranks);
  return {rounds, static_cast<double>(rounds)};
}

}  // namespace

extern constexpr Algorithm kDisseminationBarrier{.name = "dissemination",
                                                 .collective = Collective::Barrier,
                                                 .order = Order::Canonical,
                                                 .minimum_resident_lanes = 1,
                                                 .traits = kPartialMessages,
                                                 .supports = any_ranks,
                                                 .build = build_dissemination_barrier,
                                                 .cost = cost_of_dissemination_barrier};

}  // namespace wreath
