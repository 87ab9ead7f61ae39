// Makes fences by membarrier(2): see remote_fence.hpp.
#include "src/base/remote_fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "src/base/memory_order.hpp"

namespace wreath {
namespace {

constinit std::atomic<bool> registered{false};

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0U, 0); }

}  // namespace

bool can_fence_others() noexcept {
  static const bool can = [] {
    constexpr long kNeeded = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    const long commands = membarrier(MEMBARRIER_CMD_QUERY);
    return commands >= 0 && (commands & kNeeded) == kNeeded;
  }();
  return can;
}

void register_for_fences() noexcept {
  if (registered_for_fences() || !can_fence_others()) return;
  if (membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0) registered.store(true, std::memory_order_release);
}

bool registered_for_fences() noexcept { return registered.load(std::memory_order_relaxed); }

void fence_others() noexcept {
  full_fence();
  static_cast<void>(membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED));
}

void compiler_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace wreath
