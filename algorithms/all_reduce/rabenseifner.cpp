// Rabenseifner's all-reduce halves recursively until each team holds one part of the sum, then doubles the parts
// recursively. Ranks beyond the largest power of two, p, give their input to a neighbour first and get the result last.
// The paper is Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
// The cost for n ranks and S bytes is 2 log2 p steps. Every rank sends and receives 2(p-1)/p S and reduces (p-1)/p S.
// Where n > p, there are 2 more steps, and S more.
#include "algorithms/fold.hpp"
#include "algorithms/halving.hpp"
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_rabenseifner_all_reduce(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  const Fold fold(problem.ranks);
  const Halving halving = Halving::of_teams(fold);
  const int team = fold.team(me);
  const std::vector<Halving::Held> mine = halving.held_by(team);
  Schedule schedule(static_cast<std::uint32_t>(fold.power));
  Lane& lane = schedule.lane();
  if (fold.follows(me)) {
    lane.send(me - 1, halving.chunks(Buffer::Input, mine[0]));
    lane.recv(me - 1, halving.chunks(Buffer::Output, mine[0]));
    return schedule;
  }

  halve(lane, fold, halving, me, Buffer::Output);
  for (std::size_t step = mine.size() - 1; step > 0; --step) {
    const int partner = team ^ (1 << (step - 1));
    const Rank peer = fold.leader(partner);
    exchange(lane, peer, halving.chunks(Buffer::Output, mine[step]),
             {.from = peer, .target = halving.chunks(Buffer::Output, halving.held_by(partner)[step])});
  }
  if (fold.is_pair(team)) lane.send(me + 1, halving.chunks(Buffer::Output, mine[0]));
  return schedule;
}

Cost cost_of_rabenseifner_all_reduce(const Problem& problem) {
  const Fold fold(problem.ranks);
  const int rounds = 2 * halving_steps(Halving::of_teams(fold));
  const double bytes = 2.0 * (fold.power - 1) / fold.power;
  if (fold.extra == 0) return {rounds, bytes};
  return {rounds + 2, bytes + 1};
}

}  // namespace

extern constexpr Algorithm kRabenseifnerAllReduce{.name = "rabenseifner",
                                                  .collective = Collective::AllReduce,
                                                  .order = Order::Canonical,
                                                  .minimum_resident_lanes = 1,
                                                  .traits = kPartialMessages | kSeveralParts,
                                                  .supports = any_ranks,
                                                  .build = build_rabenseifner_all_reduce,
                                                  .cost = cost_of_rabenseifner_all_reduce};

}  // namespace wreath
