// Adds up the turns of the ranks that wait on one core.
#include "src/engine/turns.hpp"

#include <sched.h>

#include <utility>

#include "src/base/cpu.hpp"
#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

constexpr int kUnitBits = 10;  // of CoreUser::kept

}  // namespace

Turns::Turns(Counter* own, std::vector<CoreUser> users)
    : own_(own), users_(std::move(users)), seen_(users_.size()), looked_(cycle_count()) {
  kept_since_look();
}

void Turns::end(std::uint64_t ticks) {
  if (own_ == nullptr || begun_ == 0) return;
  kept_ += ticks - std::exchange(begun_, 0);
  store_relaxed(own_->value, static_cast<std::uint32_t>(kept_ >> kUnitBits));
}

void Turns::wake(std::uint64_t ticks) {
  kept_since_look();
  looked_ = ticks;
  begin(ticks);
}

bool Turns::fill_core(std::uint64_t now) {
  if (own_ == nullptr) return false;
  const std::uint64_t kept = kept_since_look();
  return 2 * kept >= now - std::exchange(looked_, now);
}

// Looks at what each rank has kept, and returns how many ticks those of this thread's core have added since the last
// look.
std::uint64_t Turns::kept_since_look() {
  const auto here = static_cast<std::uint32_t>(::sched_getcpu() + 1);
  std::uint64_t kept = 0;
  for (std::size_t i = 0; i < users_.size(); ++i) {
    const std::uint32_t told = load_relaxed(users_[i].kept->value);
    const std::uint32_t since = told - std::exchange(seen_[i], told);
    if (load_relaxed(users_[i].core->value) == here) kept += std::uint64_t{since} << kUnitBits;
  }
  return kept;
}

}  // namespace wreath
