// The binomial broadcast has each rank that has the vector pass it on to the rank half of the remaining distance away.
// Ranks are counted from the root (algorithms/binomial.hpp).
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes is at most floor(log2 n) messages that follow each other. The root sends ceil(log2
// n) S.
#include "algorithms/binomial.hpp"

namespace wreath {
namespace {

Schedule build_binomial_broadcast(const Problem& problem, Rank me) {
  const BinomialNode node = BinomialNode::of(problem, me);
  const bool root = me == problem.root;
  Schedule schedule(1);
  Lane& lane = schedule.lane();

  if (!root) lane.recv(node.parent(), output(0));
  for (const BinomialNode& child : node.children()) lane.send(child.rank(), root ? input(0) : output(0));
  if (root) lane.copy(input(0), output(0));
  return schedule;
}

Cost cost_of_binomial_broadcast(const Problem& problem) {
  return {binomial_depth(problem.ranks), static_cast<double>(ceiling_log2(problem.ranks))};
}

}  // namespace

extern constexpr Algorithm kBinomialBroadcast{.name = "binomial",
                                              .collective = Collective::Broadcast,
                                              .order = Order::Canonical,
                                              .minimum_resident_lanes = 1,
                                              .traits = 0,
                                              .supports = any_ranks,
                                              .build = build_binomial_broadcast,
                                              .cost = cost_of_binomial_broadcast};

}  // namespace wreath
