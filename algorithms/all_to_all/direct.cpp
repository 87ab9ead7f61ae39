// The direct all-to-all (the linear algorithm) has every rank send all its blocks, then take what comes. Rank r starts
// with rank r + 1, so that not all send to one.
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes of Input is 1 step. Every rank sends and receives (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule direct_all_to_all(const Problem& problem, Rank me) {
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

Cost direct_all_to_all_cost(const Problem& problem) {
  const int n = problem.ranks;
  return {n == 1 ? 0 : 1, (n - 1.0) / n};
}

}  // namespace wreath
