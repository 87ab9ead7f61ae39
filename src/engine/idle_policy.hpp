// Decides how a driver waits: with a core for each rank it spins, then sleeps; without one it lets others run at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/cpu.hpp"
#include "src/engine/placement.hpp"
#include "src/engine/yielding.hpp"
#include "src/membership/links.hpp"

namespace wreath {

class IdlePolicy {
 public:
  // Compares the ranks of this host with their cores.
  void count(const HostRanks& host);
  // Sets the limits of rounds. The caller has made the links; every wire makes a round of the driver cost more.
  void link(const Links& links, Rank rank, int ranks);

  // Says whether there are more ranks than cores on this host.
  bool crowded() const { return crowded_; }
  // The time that a driver spins before it sleeps, at least.
  std::int64_t spin_ns() const { return spin_ns_; }
  // The same where its call has been at work for so long. Ranks move large data at slightly different speeds, and a
  // sleep costs more than the difference. So a driver may wait for as long again, unless WREATH_SPIN_US says how long.
  std::int64_t spin_ns(std::int64_t worked_ns) const { return fixed_ ? spin_ns_ : std::max(spin_ns_, worked_ns); }
  // A small call looks so often for its messages before it waits like any other.
  std::uint32_t small_looks() const { return small_looks_; }

  // Lets other ranks run. `begins` is true for the first turn of a wait. Returns false where it is better to sleep.
  bool give_turn(bool begins);
  // Spends the driver's `round`-th round in which nothing moved. Returns false when it is time to look at the clock.
  bool spend(std::uint32_t round);
  // Says whether the driver sleeps without spinning, as soon as it has yielded.
  bool sleeps_at_once(std::uint32_t round) const { return crowded_ && round > pauses_; }
  // The driver says when it sleeps, and when it has slept.
  void sleep() { yielding_.sleep(); }
  void wake() { yielding_.wake(); }
  // Says whether the driver looks at the clock in this round.
  static bool is_look(std::uint32_t round) { return round % kRoundsALook == 0; }

 private:
  static constexpr std::uint32_t kRoundsALook = 64;

  std::int64_t spin_ns_ = 0;
  bool fixed_ = true;  // spin_ns_ holds for calls of all lengths
  bool crowded_ = false;
  // A driver on a crowded host first pauses for so many rounds.
  std::uint32_t pauses_ = 0;
  // A driver on a crowded host then yields for so many rounds before it sleeps.
  std::uint32_t yields_ = 0;
  std::uint32_t small_looks_ = 0;
  const TickPair made_ = TickPair::now();
  Yielding yielding_;
  // The placement is used where the host is crowded.
  Placement placement_;
};

}  // namespace wreath
