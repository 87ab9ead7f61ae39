// The binomial scatter gives every rank the blocks of its subtree as one message. The rank hands on the blocks of its
// children's subtrees. Ranks are counted from the root (algorithms/binomial.hpp).
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes in all blocks is at most floor(log2 n) messages that follow each other. The root
// sends (n-1)/n S.
#include "algorithms/binomial.hpp"

namespace wreath {
namespace {

Schedule build_binomial_scatter(const Problem& problem, Rank me) {
  const BinomialNode node = BinomialNode::of(problem, me);
  const bool root = me == problem.root, leaf = node.size == 1;
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();

  const Buffer buffer = root ? Buffer::Input : leaf ? Buffer::Output : Buffer::Scratch;
  if (!root) lane.recv(node.parent(), chunks(buffer, node.subtree()));
  for (const BinomialNode& child : node.children()) {
    lane.send(child.rank(), chunks(buffer, child.subtree(), child.number - node.number));
  }
  if (buffer != Buffer::Output) lane.copy({Chunk{buffer, static_cast<std::uint32_t>(me)}}, output(me));
  return schedule;
}

Cost cost_of_binomial_scatter(const Problem& problem) {
  return {binomial_depth(problem.ranks), (problem.ranks - 1.0) / problem.ranks};
}

}  // namespace

extern constexpr Algorithm kBinomialScatter{.name = "binomial",
                                            .collective = Collective::Scatter,
                                            .order = Order::Canonical,
                                            .minimum_resident_lanes = 1,
                                            .traits = kSeveralParts,
                                            .supports = any_ranks,
                                            .build = build_binomial_scatter,
                                            .cost = cost_of_binomial_scatter};

}  // namespace wreath
