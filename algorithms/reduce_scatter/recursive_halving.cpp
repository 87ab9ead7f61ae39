// The recursive halving reduce-scatter pairs partners by rank bit, low bit first. Each partner gives away the half that
// is the other's. Ranks beyond the largest power of two, p, give their input to a neighbour first and get their block
// last.
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes in all blocks is log2 p steps. Every rank sends, receives and reduces (n-1)/n S.
// Where n > p, there are at most 2 more steps, and S more received.
#include "algorithms/fold.hpp"
#include "algorithms/halving.hpp"
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_recursive_halving_reduce_scatter(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  const Fold fold(problem.ranks);
  const Halving halving = Halving::of_blocks(fold);
  const std::vector<Halving::Held> mine = halving.held_by(fold.team(me));
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();
  if (fold.follows(me)) {
    lane.send(me - 1, halving.chunks(Buffer::Input, mine[0]));
    lane.recv(me - 1, output(me), kPartial);
    return schedule;
  }

  const bool pair = fold.is_pair(fold.team(me));
  halve(lane, fold, halving, me, pair ? Buffer::Partial : Buffer::Output);
  // The leader has both blocks of the pair, in rank order.
  if (pair) {
    lane.copy(partial(mine.back().first, me), output(me));
    lane.send(me + 1, partial(mine.back().first + 1, me + 1));
  }
  return schedule;
}

Cost cost_of_recursive_halving_reduce_scatter(const Problem& problem) {
  const Fold fold(problem.ranks);
  const int steps = halving_steps(Halving::of_blocks(fold));
  if (fold.extra == 0) return {steps, (problem.ranks - 1.0) / problem.ranks};
  return {steps + fold.more_steps(), 1.0};
}

}  // namespace

extern constexpr Algorithm kRecursiveHalvingReduceScatter{.name = "recursive_halving",
                                                          .collective = Collective::ReduceScatter,
                                                          .order = Order::Canonical,
                                                          .minimum_resident_lanes = 1,
                                                          .traits = kPartialMessages | kSeveralParts | kVarying,
                                                          .supports = any_ranks,
                                                          .build = build_recursive_halving_reduce_scatter,
                                                          .cost = cost_of_recursive_halving_reduce_scatter};

}  // namespace wreath
