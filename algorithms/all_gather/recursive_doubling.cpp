// Recursive doubling all-gather, for powers of two: partners by rank bit, low bit first, exchange all blocks they have
// (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1),
// 2005). Other numbers of ranks are better served by Bruck's, which sends no more.
// n ranks, S bytes in all blocks: log2 n steps; every rank sends and receives (n-1)/n S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

Schedule build_recursive_doubling_all_gather(const Problem& problem, Rank me) {
  const int n = problem.ranks;
  const auto blocks_of = [](Rank rank, int count) {
    return chunks(Buffer::Output, stretch(rank - rank % count, count));
  };
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();

  lane.copy(input(me), output(me));
  for (int bit = 1; bit < n; bit *= 2) {
    const Rank partner = me ^ bit;
    exchange(lane, partner, blocks_of(me, bit), {.from = partner, .target = blocks_of(partner, bit)});
  }
  return schedule;
}

Cost cost_of_recursive_doubling_all_gather(const Problem& problem) {
  int steps = 0;
  for (int blocks = 1; blocks < problem.ranks; blocks *= 2) steps += messages(blocks);
  return {steps, (problem.ranks - 1.0) / problem.ranks};
}

}  // namespace

extern constexpr Algorithm kRecursiveDoublingAllGather{.name = "recursive_doubling",
                                                       .collective = Collective::AllGather,
                                                       .order = Order::Canonical,
                                                       .minimum_resident_lanes = 1,
                                                       .traits = kSeveralParts | kVarying,
                                                       .supports = power_of_two_ranks,
                                                       .build = build_recursive_doubling_all_gather,
                                                       .cost = cost_of_recursive_doubling_all_gather};

}  // namespace wreath
