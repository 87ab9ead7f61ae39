// The recursive doubling all-gather is for powers of two. Partners by rank bit exchange all blocks they have, low bit
// first. Bruck's all-gather serves other numbers of ranks better, and sends no more.
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes in all blocks is log2 n steps. Every rank sends and receives (n-1)/n S.
#include "algorithms/rows.hpp"
#include "algorithms/words.hpp"

namespace wreath {

Schedule recursive_doubling_all_gather(const Problem& problem, Rank me) {
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

Cost recursive_doubling_all_gather_cost(const Problem& problem) {
  int steps = 0;
  for (int blocks = 1; blocks < problem.ranks; blocks *= 2) steps += messages(blocks);
  return {steps, (problem.ranks - 1.0) / problem.ranks};
}

}  // namespace wreath
