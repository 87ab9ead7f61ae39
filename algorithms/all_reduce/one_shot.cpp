// The one-shot all-reduce gives every rank every input, and each rank sums the inputs itself. This is the all-to-all
// algorithm of small messages.
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005,
// compare it with the log-step algorithms.
// The cost for n ranks and S bytes is 1 step. Every rank sends one message of S to n-1 readers, and receives and
// reduces (n-1) S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule one_shot_all_reduce(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  if (n == 1) return copy_only();
  const std::vector<Rank> peers = others(n, me);
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  // The send is staged, and both lines are in one lane. In place the sum replaces the input. By then the input must
  // have left (lane order), and slower ranks must not need it any more (their copy is staged).
  lane.send_all_staged(peers, input(0));
  lane.load_reduce(peers, input(0), output(0));
  return schedule;
}

Cost one_shot_all_reduce_cost(const Problem& problem) {
  return {problem.ranks == 1 ? 0 : 1, static_cast<double>(problem.ranks - 1)};
}

}  // namespace wreath
