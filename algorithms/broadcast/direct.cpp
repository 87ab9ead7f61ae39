// Direct broadcast: the root hands the vector to all (the linear algorithm; one message that all read, where memory is
// shared).
// n ranks, S bytes: 1 step; the root sends (n-1) S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_direct_broadcast(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  if (me == problem.root) {
    lane.send_all(others(problem.ranks, me), input(0));
    lane.copy(input(0), output(0));
  } else {
    lane.recv(problem.root, output(0));
  }
  return schedule;
}

Cost cost_of_direct_broadcast(const Problem& problem) { return {problem.ranks == 1 ? 0 : 1, problem.ranks - 1.0}; }

}  // namespace

extern constexpr Algorithm kDirectBroadcast{.name = "direct",
                                            .collective = Collective::Broadcast,
                                            .order = Order::Canonical,
                                            .minimum_resident_lanes = 1,
                                            .traits = 0,
                                            .supports = any_ranks,
                                            .build = build_direct_broadcast,
                                            .cost = cost_of_direct_broadcast};

}  // namespace wreath
