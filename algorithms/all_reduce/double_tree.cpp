// Double-tree all-reduce: each half of the vector is summed up a binary tree and handed down again, tile after tile; a
// rank has children in one of the two trees at most (Sanders, Speck and Traff, "Two-tree algorithms for full
// bandwidth broadcast, reduction and scan", Parallel Computing 35(12), 2009).
// n ranks, S bytes: 2 floor(log2 n) steps; a rank sends and receives at most 2 S and reduces at most S.
#include "algorithms/words.hpp"

namespace wreath {
namespace {

constexpr int kTrees = 2;

// One rank's place in one of the trees. Ranks stand at 1..n in it, with children around their parents, so that odd
// places are leaves. The first tree is in rank order. The second one swaps odd and even: it is reversed for even n, and
// shifted by one for odd n.
struct TreePlace {
  TreePlace(int ranks, Rank me, int tree) : ranks_(ranks), tree_(tree) {
    const int place = tree == 0 ? me + 1 : ranks % 2 == 0 ? ranks - me : (me + 1) % ranks + 1;
    // The rank stands `width` places after its subtree's left end.
    const int width = place & -place;
    const int above = (place & 2 * width) != 0 ? place - width : place + width;
    parent = rank_at(above <= ranks ? above : place - width);
    if (width == 1) return;
    children.push_back(rank_at(place - width / 2));
    for (int step = width / 2; step > 0; step /= 2) {
      if (place + step > ranks) continue;
      children.push_back(rank_at(place + step));
      break;
    }
  }
  bool is_root() const { return parent < 0; }

  Rank parent = -1;
  std::vector<Rank> children;

 private:
  // Returns the rank at a place, or -1 above the root.
  Rank rank_at(int place) const {
    if (place == 0) return -1;
    return tree_ == 0 ? place - 1 : ranks_ % 2 == 0 ? ranks_ - place : (place + ranks_ - 2) % ranks_;
  }
  int ranks_;
  int tree_;
};

Schedule build_double_tree_all_reduce(const Problem& problem, Rank me) {
  if (problem.ranks == 1) return copy_only();
  Schedule schedule(kTrees);
  for (int tree = 0; tree < kTrees; ++tree) {
    const TreePlace place(problem.ranks, me, tree);
    Lane& up = schedule.lane(2 * tree);
    Lane& down = schedule.lane(2 * tree + 1);

    Chunk sum = input(tree);
    for (const Rank child : place.children) {
      const bool last = place.is_root() && child == place.children.back();
      const Chunk next = last ? output(tree) : partial(0, tree);
      const bool leaf = TreePlace(problem.ranks, child, tree).children.empty();
      up.recv_reduce(child, sum, next, {.form = leaf ? Form::Data : Form::Partial});
      sum = next;
    }
    if (place.is_root()) {
      up.send_all(place.children, sum);
      continue;
    }
    up.send(place.parent, sum);
    const bool below_root = TreePlace(problem.ranks, place.parent, tree).is_root();
    down.recv(place.parent, output(tree), {.lane = below_root ? up.number() : down.number()});
    if (!place.children.empty()) down.send_all(place.children, output(tree));
  }
  return schedule;
}

Cost cost_of_double_tree_all_reduce(const Problem& problem) {
  std::size_t most = 0;  // halves of the vector that a rank sends: one up each tree, one to each child
  for (Rank rank = 0; rank < problem.ranks; ++rank) {
    std::size_t sent = 0;
    for (int tree = 0; tree < kTrees; ++tree) {
      const TreePlace place(problem.ranks, rank, tree);
      sent += place.children.size() + (place.is_root() ? 0 : 1);
    }
    most = std::max(most, sent);
  }
  return {2 * floor_log2(problem.ranks), static_cast<double>(most) / kTrees};
}

}  // namespace

extern constexpr Algorithm kDoubleTreeAllReduce{.name = "double_tree",
                                                .collective = Collective::AllReduce,
                                                .order = Order::Tree,
                                                .minimum_resident_lanes = 2,
                                                .traits = kPartialMessages,
                                                .supports = any_ranks,
                                                .build = build_double_tree_all_reduce,
                                                .cost = cost_of_double_tree_all_reduce};

}  // namespace wreath
