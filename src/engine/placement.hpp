// Where the drivers of a crowded host run.
//
// Threads that take turns by yielding never sleep, and the scheduler leaves such threads on the cores they are on, be
// it three on one and one on the other. So each driver that waits tells on which core it is, and one that sees its own
// core hold two more of the communicator's ranks than another moves to that one. It stays free to run anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "wreath/fifo.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Where rank `rank` should move. `cores`: by rank, the core each waits on, -1 where none is known; `allowed`: those
// this rank may run on. Of the ranks of a core only the last one is told to move.
std::optional<int> better_core(std::span<const int> cores, Rank rank, std::span<const int> allowed);

class Placement {
 public:
  Placement() = default;
  // `told[r]`: where rank r tells its core, as Placement writes it; null where this rank cannot know, and `own` where
  // it is this one.
  Placement(Rank rank, Counter* own, std::vector<const Counter*> told);

  // A look of the driver that has begun to wait: tells its core, and every few looks moves if it should.
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
