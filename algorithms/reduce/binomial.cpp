// The binomial reduce joins groups of ranks two by two. The ranks of a group differ in their low bits only. One rank of
// each group sends its sum to one rank of the other. The root acts for a group of which it is a member, else the lowest
// rank does. So the tree is the canonical one for every root, and nobody has to send the result on.
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes is log2 p steps, with p the largest power of two. Where n > p, there is 1 more or
// none. Every rank but the root sends S. The root receives and reduces log2 p S, and S more if it is one of a pair.
#include "algorithms/fold.hpp"
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_binomial_reduce(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  const Fold fold(problem.ranks);
  const Rank root = problem.root;
  const int team = fold.team(me), root_team = fold.team(root);
  // Returns the rank that acts for the `size` teams around `member`.
  const auto actor = [&](int member, int size) {
    return member / size == root_team / size ? root : fold.leader(member - member % size);
  };
  Schedule schedule(1);
  Lane& lane = schedule.lane();

  Chunk sum = input(0);
  if (fold.is_pair(team)) {
    const Rank other = me ^ 1;  // pairs are (2i, 2i + 1)
    if (actor(team, 1) == other) {
      lane.send(other, sum);
      return schedule;
    }
    lane.recv_reduce(other, sum, partial(0, 0));
    sum = partial(0, 0);
  }
  for (int size = 1; size < fold.power; size *= 2) {
    const int partner = team ^ size;
    const Rank other = actor(partner, size);
    if (actor(team, 2 * size) == other) {
      lane.send(other, sum);
      return schedule;
    }
    const Chunk next = 2 * size == fold.power ? output(0) : partial(0, 0);
    lane.recv_reduce(other, sum, next, {.form = size == 1 ? fold.first_form(partner) : Form::Partial});
    sum = next;
  }
  return schedule;
}

Cost cost_of_binomial_reduce(const Problem& problem) {
  const Fold fold(problem.ranks);
  // A pair's rank sends at every later step only if its team is the last of the half without the root. That half is the
  // lower one.
  const bool late_pair = 2 * fold.extra >= fold.power && 2 * fold.team(problem.root) >= fold.power;
  const int steps = floor_log2(problem.ranks) + (problem.ranks > 1 && fold.extra > 0 && late_pair ? 1 : 0);
  return {steps, problem.ranks == 1 ? 0.0 : 1.0};
}

}  // namespace

extern constexpr Algorithm kBinomialReduce{.name = "binomial",
                                           .collective = Collective::Reduce,
                                           .order = Order::Canonical,
                                           .minimum_resident_lanes = 1,
                                           .traits = kPartialMessages,
                                           .supports = any_ranks,
                                           .build = build_binomial_reduce,
                                           .cost = cost_of_binomial_reduce};

}  // namespace wreath
