// Sets an ordinary thread's slice by sched_setattr(2).
#include "src/base/slice.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace wreath {
namespace {

// The kernel takes no shorter slice.
constexpr std::uint64_t kShortestNs = 100'000;

// Mirrors struct sched_attr, version 0.
struct Attributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime_ns;
  std::uint64_t deadline_ns;
  std::uint64_t period_ns;
};
static_assert(sizeof(Attributes) == 48);

}  // namespace

void ask_for_short_turns() noexcept {
  Attributes attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0U) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.size = sizeof attributes;
  attributes.runtime_ns = kShortestNs;
  static_cast<void>(::syscall(SYS_sched_setattr, 0, &attributes, 0U));
}

}  // namespace wreath
