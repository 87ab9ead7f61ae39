// Ranks that share a core tell each other for how long they keep it. So a rank that has waited long for its turn knows
// whether they took that time, or another program.
#pragma once

#include <cstdint>
#include <vector>

#include "wreath/fifo.hpp"

namespace wreath {

// The control segment of a rank tells the core that it waits on, and for how long it has kept cores (SegmentPrologue).
struct CoreUser {
  const Counter* core = nullptr;
  const Counter* kept = nullptr;
};

// A turn of a driver is the time from one of its yields, or sleeps, to the next.
class Turns {
 public:
  Turns() = default;
  // `own` is this rank's CoreUser::kept. `users` has the ranks that this one can read, itself too.
  Turns(Counter* own, std::vector<CoreUser> users);

  // A turn begins and ends at so many ticks of cycle_count(). Other ranks are told.
  void begin(std::uint64_t ticks);
  void end(std::uint64_t ticks);
  // Begins a turn after a sleep, of which nobody knows who had the core.
  void wake(std::uint64_t ticks);
  // Says whether ranks kept this thread's core for half of the time since the last call or sleep, or since this was
  // made, or whether another rank is in its turn there.
  bool fill_core(std::uint64_t now);

 private:
  void tell(std::uint32_t in_turn);
  std::uint64_t kept_since_look();
  bool another_is_in_turn() const;

  Counter* own_ = nullptr;
  std::vector<CoreUser> users_;
  std::vector<std::uint32_t> seen_;  // CoreUser::kept at the last look, by user
  std::uint64_t looked_ = 0;         // the time of the last look
  std::uint64_t begun_ = 0;          // when this turn began, or 0
  std::uint64_t kept_ = 0;           // in ticks
};

}  // namespace wreath
