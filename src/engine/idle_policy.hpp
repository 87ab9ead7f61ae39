// Decides how a driver waits: with a core for each rank it spins, then sleeps; without one it lets others run at once.
#pragma once

#include <cstdint>

#include "src/base/cpu.hpp"
#include "src/engine/placement.hpp"
#include "src/engine/yielding.hpp"
#include "src/membership/links.hpp"

namespace wreath {

class IdlePolicy {
 public:
  // Counts the cores that so many ranks of this host have.
  void count(int ranks_of_host);
  // The links are made. Every wire makes a round of the driver dearer.
  void link(const Links& links, Rank rank, int ranks);

  // Whether there are more ranks than cores on this host.
  bool crowded() const { return crowded_; }
  // The time that a driver spins before it sleeps.
  std::int64_t spin_ns() const { return spin_ns_; }
  // A small call looks so often for its messages before it waits like any other.
  std::uint32_t small_looks() const { return small_looks_; }

  // Lets others run; `begins`: to wait. False: it is better to sleep.
  bool give_turn(bool begins);
  // Spends the driver's `round`-th round in which nothing moved. False: it is time to look at the clock.
  bool spend(std::uint32_t round);
  // Whether the driver does not spin, but sleeps as soon as it has yielded.
  bool sleeps_at_once(std::uint32_t round) const { return crowded_ && round > pauses_; }
  // Whether a round is one in which the driver looks at the clock.
  static bool is_look(std::uint32_t round) { return round % kRoundsALook == 0; }

 private:
  static constexpr std::uint32_t kRoundsALook = 64;

  std::int64_t spin_ns_ = 0;
  bool crowded_ = false;
  std::uint32_t pauses_ = 0;  // where it is crowded: of a driver that nothing moves for, before it sleeps
  std::uint32_t yields_ = 0;
  std::uint32_t small_looks_ = 0;
  const TickPair made_ = TickPair::now();
  Yielding yielding_;
  Placement placement_;  // where it is crowded
};

}  // namespace wreath
