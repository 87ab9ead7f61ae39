// Shares out hardware threads down the levels of the machine, at each in proportion to what is below.
#include <algorithm>
#include <array>
#include <cstddef>

#include "wreath/topology.hpp"

namespace wreath {
namespace {

// Holds a hardware thread's way from the machine down to it: package, node, last-level cache, core, itself.
using Path = std::array<int, 5>;
constexpr std::size_t kCore = 3;
constexpr std::size_t kThread = 4;
using Paths = std::vector<Path>;

struct Range {
  std::size_t first = 0;
  std::size_t last = 0;
};

// Returns the first processor of the largest cache level that `number` is behind; -1 where there is none.
int last_level_cache(const Topology& topology, int number) {
  int level = 0;
  int first = -1;
  for (const Cache& cache : topology.caches) {
    const bool behind = std::binary_search(cache.processors.begin(), cache.processors.end(), number);
    if (!behind || cache.level <= level) continue;
    level = cache.level;
    first = cache.processors.front();
  }
  return first;
}

Paths allowed_paths(const Topology& topology) {
  Paths paths;
  for (const Processor& processor : topology.processors) {
    if (!std::binary_search(topology.allowed.begin(), topology.allowed.end(), processor.number)) continue;
    paths.push_back({processor.package, processor.node, last_level_cache(topology, processor.number), processor.core,
                     processor.number});
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Returns where part `i` of `parts` equal ones of `whole` begins, to the nearest.
std::size_t boundary(std::size_t whole, std::size_t i, std::size_t parts) {
  return (2 * whole * i + parts) / (2 * parts);
}

class Sharing {
 public:
  explicit Sharing(const Topology& topology) : paths_(allowed_paths(topology)) {}

  std::vector<std::vector<int>> run(std::size_t ranks) {
    const Range all{0, paths_.size()};
    if (ranks > paths_.size()) {
      for (std::size_t rank = 0; rank < ranks; ++rank) give(all);
    } else {
      share(all, 0, ranks);
    }
    return std::move(shares_);
  }

 private:
  void give(Range range) {
    std::vector<int> share;
    for (std::size_t i = range.first; i < range.last; ++i) share.push_back(paths_[i].back());
    std::sort(share.begin(), share.end());
    shares_.push_back(std::move(share));
  }

  std::vector<Range> split(Range range, std::size_t level) const {
    std::vector<Range> children;
    for (std::size_t i = range.first; i < range.last; ++i) {
      if (i == range.first || paths_[i][level] != paths_[i - 1][level]) children.push_back({i, i});
      children.back().last = i + 1;
    }
    return children;
  }

  // Counts the parts of a range at a level: cores while there is one for each rank, else hardware threads.
  std::size_t weight(Range range, std::size_t level) const { return split(range, level).size(); }

  // Shares a range among `ranks`, which is at most the range's weight. Rounding keeps that true for every part.
  void share(Range range, std::size_t level, std::size_t ranks) {
    if (ranks == 0) return;
    if (ranks == 1) return give(range);
    const std::vector<Range> children = split(range, level);
    if (ranks < children.size()) {
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const std::size_t first = boundary(children.size(), rank, ranks);
        const std::size_t last = boundary(children.size(), rank + 1, ranks);
        give({children[first].first, children[last - 1].last});
      }
      return;
    }
    const std::size_t unit = ranks <= weight(range, kCore) ? kCore : kThread;
    const std::size_t whole = weight(range, unit);
    std::size_t before = 0;
    for (const Range& child : children) {
      const std::size_t after = before + weight(child, unit);
      share(child, level + 1, boundary(ranks, after, whole) - boundary(ranks, before, whole));
      before = after;
    }
  }

  Paths paths_;
  std::vector<std::vector<int>> shares_;
};

}  // namespace

std::vector<std::vector<int>> share_cores(const Topology& topology, int ranks) {
  return Sharing(topology).run(static_cast<std::size_t>(std::max(ranks, 0)));
}

}  // namespace wreath
