// Placement moves the drivers of a crowded host between cores.
//
// Threads that take turns by yielding never sleep. The scheduler leaves such threads on their cores, even with three on
// one core and one on another. So each driver that waits publishes its core. A driver moves to another core of its
// communicator's where that core holds at least two ranks fewer than its own. It stays free to run anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wreath/fifo.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Returns the core that rank `rank` should move to. `cores` has the core that each rank waits on, by rank, with -1
// where none is known. `allowed` has the cores this rank may run on. Only the last one of the ranks of a core moves.
std::optional<int> better_core(std::span<const int> cores, Rank rank, std::span<const int> allowed);

class Placement {
 public:
  Placement() = default;
  // Makes the placement of rank `rank`. `told[r]` is the counter in which rank r publishes its core, or null where this
  // rank cannot read it. `told[rank]` is `own`.
  Placement(Rank rank, Counter* own, std::vector<const Counter*> told);

  // Publishes this driver's core when it begins to wait. Every few looks it moves the driver if it should.
  void look();

 private:
  void move();

  Rank rank_ = 0;
  Counter* own_ = nullptr;
  std::vector<const Counter*> told_;
  std::vector<int> cores_;
  std::uint32_t looks_ = 0;
  std::int64_t pause_ns_ = 0;  // until the next move
  std::int64_t moved_ns_ = 0;
};

}  // namespace wreath
