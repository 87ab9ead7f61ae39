// The recursive doubling all-reduce exchanges whole sums between partners by rank bit, low bit first. Ranks beyond the
// largest power of two, p, give their input to a neighbour first and get the result last.
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes is log2 p steps, each of S sent, received and reduced. Where n > p, there are at
// most 2 more steps, and S more.
#include "algorithms/fold.hpp"
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_recursive_doubling_all_reduce(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  const Fold fold(problem.ranks);
  const int team = fold.team(me);
  Schedule schedule(1);
  Lane& lane = schedule.lane();
  if (fold.follows(me)) {
    lane.send(me - 1, input(0));
    lane.recv(me - 1, output(0));
    return schedule;
  }

  Chunk sum = input(0);
  if (fold.is_pair(team)) {
    lane.recv_reduce(me + 1, sum, partial(0, 0));
    sum = partial(0, 0);
  }
  for (int bit = 1; bit < fold.power; bit *= 2) {
    const int partner = team ^ bit;
    const Chunk next = 2 * bit == fold.power ? output(0) : partial(0, 0);
    // The send is staged. In place the result replaces the input, and nothing tells that the first partner has read it
    // by then.
    lane.send_all_staged({fold.leader(partner)}, sum);
    lane.recv_reduce(fold.leader(partner), sum, next, {.form = bit == 1 ? fold.first_form(partner) : Form::Partial});
    sum = next;
  }
  if (fold.is_pair(team)) lane.send(me + 1, sum);
  return schedule;
}

Cost cost_of_recursive_doubling_all_reduce(const Problem& problem) {
  const Fold fold(problem.ranks);
  const int rounds = floor_log2(problem.ranks);
  return {rounds + fold.more_steps(), rounds + (fold.extra > 0 ? 1.0 : 0.0)};
}

}  // namespace

extern constexpr Algorithm kRecursiveDoublingAllReduce{.name = "recursive_doubling",
                                                       .collective = Collective::AllReduce,
                                                       .order = Order::Canonical,
                                                       .minimum_resident_lanes = 1,
                                                       .traits = kPartialMessages,
                                                       .supports = any_ranks,
                                                       .build = build_recursive_doubling_all_reduce,
                                                       .cost = cost_of_recursive_doubling_all_reduce};

}  // namespace wreath
