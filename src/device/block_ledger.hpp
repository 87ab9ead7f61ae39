// The ledger counts the blocks that run on a device, for the grids of all communicators and streams of this process.
// Blocks of a grid keep their places while they wait for other ranks' blocks. So no more blocks are launched than can
// run at once.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "wreath/device.hpp"

namespace wreath {

// Any thread may call every function. A grid in which nothing moves ends and gives its blocks back, so every turn
// comes. Ranks and communicators may ask in any order: none waits for ever for another that waits for it.
class BlockLedger {
 public:
  // Wakes a waiter when its turn may have come. The address of the function names the waiter.
  using Ring = std::function<void()>;

  // Returns the ledger of `device`, which lives as long as the process.
  static BlockLedger& of(const Device& device);

  // Takes blocks from the `capacity` blocks that run at once, and returns how many the caller may launch. That is
  // `wanted`, or all that are not reserved if these are fewer. The blocks are the caller's until give_back(). Returns 0
  // where the caller now stands in line: it asks again after its Ring was called.
  int take(const Ring& who, int wanted, int capacity);
  void give_back(int blocks);
  // Reserves `blocks` blocks until yield(), for kernels that wait without an end. At most half of `capacity` is
  // reserved in this way. Returns false where no such place is left.
  bool reserve(int blocks, int capacity);
  void yield(int blocks);
  // Removes the waiter from the line, if it stands there.
  void leave(const Ring& who);
  // Returns whether somebody waits for blocks.
  bool crowded() const;

 private:
  mutable std::mutex mutex_;
  std::deque<const Ring*> line_;
  int taken_ = 0;
  int reserved_ = 0;
};

}  // namespace wreath
