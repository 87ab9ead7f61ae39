// Who runs how many blocks on a device: the grids of all communicators and streams of this process. Blocks of a grid
// wait for other ranks' while they hold their place, so no more are launched than run at once.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "wreath/device.hpp"

namespace wreath {

// Any thread. A grid where nothing moves ends and gives its blocks back, so every turn comes: whatever the order in
// which ranks and communicators ask, none waits for ever for one that waits for it.
class BlockLedger {
 public:
  // What a waiter is told by when its turn may have come. Its address names the waiter.
  using Ring = std::function<void()>;

  // The device's own; lives as long as the process.
  static BlockLedger& of(const Device& device);

  // Of `capacity` blocks that run at once, how many the caller may launch: `wanted`, or all there are if that is more;
  // 0: it stands in line and asks again when it was rung. They are the caller's until give_back().
  int take(const Ring& who, int wanted, int capacity);
  void give_back(int blocks);
  // A place for `blocks` that lasts until yield(): for kernels that wait without an end. At most half of the capacity
  // is given away so; false: there is none left.
  bool reserve(int blocks, int capacity);
  void yield(int blocks);
  // Out of the line, if it stands there.
  void leave(const Ring& who);
  // Whether somebody waits for blocks.
  bool crowded() const;

 private:
  mutable std::mutex mutex_;
  std::deque<const Ring*> line_;
  int taken_ = 0;
  int reserved_ = 0;
};

}  // namespace wreath
