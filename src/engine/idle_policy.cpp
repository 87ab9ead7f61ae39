// The policy sets and spends the rounds of a driver that waits.
#include "src/engine/idle_policy.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "src/base/config.hpp"

namespace wreath {
namespace {

// A pause takes 20 to 70 ns, and a yield to another rank takes 400 ns.
constexpr std::uint32_t kCrowdedPauses = 2;
constexpr std::uint32_t kCrowdedYields = 30;
constexpr std::uint32_t kSmallLooks = 200;
// Wires delay what they owe their peers for some rounds, but must send it before a sleep.
constexpr std::uint32_t kLeastYields = 8;

Turns turns_of(const Links& links) {
  if (links.mapped().empty()) return {};
  std::vector<CoreUser> users{{&links.segment().core(), &links.segment().kept()}};
  for (const Rank peer : links.mapped()) {
    const PeerSegment& segment = links.mapped(peer)->peer();
    users.push_back({segment.core(), segment.kept()});
  }
  return {&links.segment().kept(), std::move(users)};
}

}  // namespace

void IdlePolicy::count(const HostRanks& host) {
  crowded_ = host.crowded();
  spin_ns_ = spin_budget_ns(host);
  const Result<std::int64_t> told = setting_integer(Setting::SpinUs);
  fixed_ = crowded_ || !told || *told >= 0;
}

void IdlePolicy::link(const Links& links, Rank rank, int ranks) {
  const auto wires = static_cast<std::uint32_t>(links.wired().size());
  pauses_ = kCrowdedPauses / (1 + wires);
  yields_ = std::max(kCrowdedYields / (1 + wires), kLeastYields);
  small_looks_ = crowded_ ? kCrowdedYields : kSmallLooks;
  yielding_ = Yielding::since(made_, crowded_ ? turns_of(links) : Turns());
  if (!crowded_ || links.mapped().empty()) return;
  std::vector<const Counter*> told(static_cast<std::size_t>(ranks));
  Counter& own = links.segment().core();
  told[static_cast<std::size_t>(rank)] = &own;
  for (const Rank peer : links.mapped()) told[static_cast<std::size_t>(peer)] = links.mapped(peer)->peer().core();
  placement_ = Placement(rank, &own, std::move(told));
}

bool IdlePolicy::give_turn(bool begins) {
  if (begins) placement_.look();
  return yielding_.yield();
}

bool IdlePolicy::spend(std::uint32_t round) {
  const bool may_yield = crowded_ && round > pauses_ && round <= pauses_ + yields_;
  if (may_yield && give_turn(round == pauses_ + 1)) return true;
  if (is_look(round) || sleeps_at_once(round)) return false;
  if (crowded_ || round > kRoundsALook) pause();
  return true;
}

}  // namespace wreath
