// A driver counts the ranks of each core and moves to an emptier core.
#include "src/engine/placement.hpp"

#include <sched.h>

#include <algorithm>

#include "src/base/clock.hpp"
#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kLooksAMove = 8;
constexpr std::int64_t kFirstPauseNs = 1'000'000;
// Threads that the scheduler prefers may undo each move, so the pause grows up to this.
constexpr std::int64_t kLongestPauseNs = 256'000'000;

// Returns the cores in a thread's mask.
std::vector<int> cores_in(const cpu_set_t& mask) {
  std::vector<int> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(static_cast<int>(core));
  }
  return cores;
}

}  // namespace

std::optional<int> better_core(std::span<const int> cores, Rank rank, std::span<const int> allowed) {
  const auto ranks_on = [&](int core) { return std::count(cores.begin(), cores.end(), core); };
  const auto after = cores.subspan(static_cast<std::size_t>(rank) + 1);
  const int own = cores[static_cast<std::size_t>(rank)];
  if (own < 0 || allowed.empty() || std::find(after.begin(), after.end(), own) != after.end()) return std::nullopt;
  const int emptiest = *std::min_element(allowed.begin(), allowed.end(),
                                         [&](int one, int other) { return ranks_on(one) < ranks_on(other); });
  return ranks_on(own) - ranks_on(emptiest) >= 2 ? std::optional(emptiest) : std::nullopt;
}

Placement::Placement(Rank rank, Counter* own, std::vector<const Counter*> told)
    : rank_(rank), own_(own), told_(std::move(told)), cores_(told_.size(), -1), pause_ns_(kFirstPauseNs) {}

void Placement::look() {
  if (own_ == nullptr) return;
  const auto told = static_cast<std::uint32_t>(::sched_getcpu() + 1);
  if (load_relaxed(own_->value) != told) store_release(own_->value, told);
  if (++looks_ % kLooksAMove == 0) move();
}

// Moves this thread by a mask of one core. Afterwards the thread has its own mask again.
void Placement::move() {
  for (std::size_t rank = 0; rank < told_.size(); ++rank) {
    cores_[rank] = told_[rank] == nullptr ? -1 : static_cast<int>(load_relaxed(told_[rank]->value)) - 1;
  }
  const int own = cores_[static_cast<std::size_t>(rank_)];
  if (std::count(cores_.begin(), cores_.end(), own) < 2) return;
  const std::int64_t now = now_ns();
  if (now - moved_ns_ < pause_ns_) return;
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return;
  const std::vector<int> allowed = cores_in(mask);
  const auto target = better_core(cores_, rank_, allowed);
  moved_ns_ = now;
  if (!target) return;
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(static_cast<std::size_t>(*target), &there);
  if (::sched_setaffinity(0, sizeof there, &there) == 0) ::sched_setaffinity(0, sizeof mask, &mask);
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
  store_release(own_->value, static_cast<std::uint32_t>(*target + 1));
}

}  // namespace wreath
