// The pairwise all-to-all has rounds: in round k every rank sends to the rank k after it and receives from the rank k
// before it. One message goes in and one goes out at a time, so no rank is flooded.
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes of Input is n-1 steps. Every rank sends and receives (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule pairwise_all_to_all(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const Ring ring = Ring::of(problem, me);
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  for (int k = 1; k < n; ++k) {
    const Rank to = ring.after(k), from = ring.before(k);
    lane.send(to, input(to));
    lane.recv(from, output(from));
  }
  lane.copy(input(me), output(me));
  return schedule;
}

Cost pairwise_all_to_all_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n - 1, (n - 1.0) / n};
}

}  // namespace wreath
