// The binomial tree serves the rooted collectives.
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/words.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {

// Ranks are counted from the root: rank (root + v) mod n is node v. A node's parent is its number without the lowest
// bit. Its subtree has as many nodes as that bit says, from the node on.
struct BinomialNode {
  BinomialNode(int all, Rank from, int node)
      : ranks(all), root(from), number(node), size(node == 0 ? all : std::min(node & -node, all - node)) {}
  static BinomialNode of(const Problem& problem, Rank me) {
    return {problem.ranks, problem.root, (me - problem.root + problem.ranks) % problem.ranks};
  }

  Rank rank() const { return (root + number) % ranks; }
  Rank parent() const { return (root + (number & (number - 1))) % ranks; }
  // Returns the children, with the largest subtree first.
  std::vector<BinomialNode> children() const {
    std::vector<BinomialNode> nodes;
    for (int bit = 1; bit < size; bit *= 2) nodes.insert(nodes.begin(), {ranks, root, number + bit});
    return nodes;
  }
  // Returns the ranks of the node's subtree, with the own rank first.
  std::vector<Rank> subtree() const { return stretch_of_ring(root + number, size, ranks); }

  int ranks;
  Rank root;
  int number;
  int size;
};

// Returns the messages on the longest way from the root. They are the bits of a node's number.
inline int binomial_depth(int ranks) { return floor_log2(ranks); }

}  // namespace wreath
