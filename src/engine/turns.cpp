// Adds up the turns of the ranks that wait on one core.
#include "src/engine/turns.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "src/base/cpu.hpp"
#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

constexpr int kTickBits = 10;         // of a unit of CoreUser::kept
constexpr std::uint32_t kInTurn = 1;  // of CoreUser::kept

std::uint32_t units_of(std::uint32_t kept) { return kept & ~kInTurn; }

}  // namespace

Turns::Turns(Counter* own, std::vector<CoreUser> users)
    : own_(own), users_(std::move(users)), seen_(users_.size()), looked_(cycle_count()) {
  kept_since_look();
}

void Turns::begin(std::uint64_t ticks) {
  begun_ = ticks;
  tell(kInTurn);
}

void Turns::end(std::uint64_t ticks) {
  if (begun_ == 0) return;
  kept_ += ticks - std::exchange(begun_, 0);
  tell(0);
}

void Turns::tell(std::uint32_t in_turn) {
  if (own_ != nullptr) store_relaxed(own_->value, units_of(static_cast<std::uint32_t>(kept_ >> kTickBits)) | in_turn);
}

void Turns::wake(std::uint64_t ticks) {
  kept_since_look();
  looked_ = ticks;
  begin(ticks);
}

bool Turns::fill_core(std::uint64_t now) {
  if (own_ == nullptr) return false;
  const std::uint64_t kept = kept_since_look();
  const std::uint64_t since = now - std::exchange(looked_, now);
  return 2 * kept >= since || another_is_in_turn();
}

// Looks at what each rank has kept, and returns how many ticks those of this thread's core have added since the last
// look.
std::uint64_t Turns::kept_since_look() {
  const auto here = static_cast<std::uint32_t>(::sched_getcpu() + 1);
  std::uint64_t kept = 0;
  for (std::size_t i = 0; i < users_.size(); ++i) {
    const std::uint32_t told = units_of(load_relaxed(users_[i].kept->value));
    const std::uint32_t since = told - std::exchange(seen_[i], told);
    if (load_relaxed(users_[i].core->value) == here) kept += std::uint64_t{since} << kTickBits;
  }
  return kept;
}

// This thread has the core now, so such a rank lost it in the middle of its work. It has not told yet what it kept.
bool Turns::another_is_in_turn() const {
  const auto here = static_cast<std::uint32_t>(::sched_getcpu() + 1);
  return std::any_of(users_.begin(), users_.end(), [&](const CoreUser& user) {
    const bool in_turn = (load_relaxed(user.kept->value) & kInTurn) != 0;
    return in_turn && user.kept != own_ && load_relaxed(user.core->value) == here;
  });
}

}  // namespace wreath
