// The binomial gather has every rank collect the blocks of its subtree and send them up as one message. Ranks are
// counted from the root (algorithms/binomial.hpp).
// The paper is Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19(1), 2005.
// The cost for n ranks and S bytes in all blocks is at most floor(log2 n) messages that follow each other. A rank sends
// at most S/2, and the root receives (n-1)/n S.
#include "algorithms/binomial.hpp"

namespace wreath {
namespace {

Schedule build_binomial_gather(const Problem& problem, Rank me) {
  const BinomialNode node = BinomialNode::of(problem, me);
  const bool root = me == problem.root, leaf = node.size == 1;
  Schedule schedule(static_cast<std::uint32_t>(problem.ranks));
  Lane& lane = schedule.lane();

  const Buffer buffer = root ? Buffer::Output : leaf ? Buffer::Input : Buffer::Scratch;
  if (buffer != Buffer::Input) lane.copy(input(me), {Chunk{buffer, static_cast<std::uint32_t>(me)}});
  std::vector<BinomialNode> children = node.children();
  std::reverse(children.begin(), children.end());  // small subtrees are complete first
  for (const BinomialNode& child : children) {
    lane.recv(child.rank(), chunks(buffer, child.subtree(), child.number - node.number));
  }
  if (!root) lane.send(node.parent(), chunks(buffer, node.subtree()));
  return schedule;
}

Cost cost_of_binomial_gather(const Problem& problem) {
  const int n = problem.ranks;
  int largest = 0;  // subtree below the root
  for (const BinomialNode& child : BinomialNode::of(problem, problem.root).children())
    largest = std::max(largest, child.size);
  return {binomial_depth(n), static_cast<double>(largest) / n};
}

}  // namespace

extern constexpr Algorithm kBinomialGather{.name = "binomial",
                                           .collective = Collective::Gather,
                                           .order = Order::Canonical,
                                           .minimum_resident_lanes = 1,
                                           .traits = kSeveralParts,
                                           .supports = any_ranks,
                                           .build = build_binomial_gather,
                                           .cost = cost_of_binomial_gather};

}  // namespace wreath
