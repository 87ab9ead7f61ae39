// The canonical tree (kernels.hpp) over sources whose reads take long. The reads of several leaves are on their way at
// once.
#pragma once

#include <bit>

#include "kernels/block/primitives.hpp"
#include "kernels/kernels.hpp"

namespace wreath {

// The tree has k sources, kMaximumFanIn + 1 at most. `Sources` has Raw read(int source), which only begins a load, and
// Combined wide(int source, const Raw&), which waits for it. Each is called once for each source. kLeaves leaves, a
// power of two, are read before the first is waited for. Then come the second sources of the leaves that have two.
template <typename Combined, int kLeaves, typename Sources>
class CanonicalTree {
 public:
  WREATH_HOST_DEVICE CanonicalTree(ReduceOp op, int k, Sources& sources)
      : sources_(sources),
        op_(op),
        leaves_(static_cast<int>(std::bit_floor(static_cast<unsigned>(k)))),
        paired_(k - leaves_) {}

  // Works like a binary counter over the groups: after the i-th, as many results merge as i has trailing zeros.
  WREATH_HOST_DEVICE Combined result() {
    Combined stack[unsigned{kStack}];
    int depth = 0;
    Combined result{};
    for (int first = 0; first < leaves_; first += kLeaves) {
      result = group(first);
      for (int done = first / kLeaves + 1; done % 2 == 0; done /= 2) result = merge(op_, stack[--depth], result);
      stack[depth++] = result;
    }
    return result;
  }

 private:
  static constexpr int kStack = std::bit_width(static_cast<unsigned>(kMaximumFanIn) / static_cast<unsigned>(kLeaves));
  using Raw = typename Sources::Raw;

  // Returns the first source of a leaf. A second source is the next one.
  WREATH_HOST_DEVICE int source_of(int leaf) const { return leaf + (leaf < paired_ ? leaf : paired_); }

  // Combines kLeaves leaves from `first` on, or all where there are fewer.
  WREATH_HOST_DEVICE Combined group(int first) {
    Combined leaf[unsigned{kLeaves}] = {};
    Raw raw[unsigned{kLeaves}] = {};
    WREATH_UNROLL
    for (int i = 0; i < kLeaves; ++i) {
      if (first + i < leaves_) raw[i] = sources_.read(source_of(first + i));
    }
    WREATH_UNROLL
    for (int i = 0; i < kLeaves; ++i) {
      if (first + i < leaves_) leaf[i] = sources_.wide(source_of(first + i), raw[i]);
    }
    if (first < paired_) add_second_sources(first, leaf, raw);
    WREATH_UNROLL
    for (int width = 1; width < kLeaves; width *= 2) {
      if (width >= leaves_) break;
      WREATH_UNROLL
      for (int i = 0; i < kLeaves; i += 2 * width) leaf[i] = merge(op_, leaf[i], leaf[i + width]);
    }
    return leaf[0];
  }
  WREATH_HOST_DEVICE void add_second_sources(int first, Combined* leaf, Raw* raw) {
    WREATH_UNROLL
    for (int i = 0; i < kLeaves; ++i) {
      if (first + i < paired_) raw[i] = sources_.read(source_of(first + i) + 1);
    }
    WREATH_UNROLL
    for (int i = 0; i < kLeaves; ++i) {
      if (first + i < paired_) leaf[i] = merge(op_, leaf[i], sources_.wide(source_of(first + i) + 1, raw[i]));
    }
  }

  Sources& sources_;
  ReduceOp op_;
  int leaves_;
  // The number of leaves of two sources, which come first.
  int paired_;
};

}  // namespace wreath
