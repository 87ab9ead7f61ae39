// The processor as this process may use it: cores, a cycle counter, and how to wait without sleeping.
#pragma once

#include <cstdint>
#include <string>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "src/base/clock.hpp"
#endif

namespace wreath {

// Cores that this process can really run on at once: the affinity mask, cut to the CPU quota of its
// cgroups (v1 or v2), rounded up; at least 1. Read anew at each call: keep the value.
int usable_cores();

// The same with the files of another root ("/" is the system), for tests. `affinity_cores` stands
// for the affinity mask.
int usable_cores(const char* root, int affinity_cores);

// Cores that the ranks of this host have together: WREATH_HOST_CORES, which a launcher sets that gives each rank its
// own, else usable_cores().
int cores_of_ranks();

// Who made the processor: "GenuineIntel", "AuthenticAMD"; empty where it does not say.
std::string cpu_vendor();

// pause(): tells the core that this is a spin loop. cycle_count(): a clock that runs at a constant rate
// and is read in a few nanoseconds; TickScale turns it into now_ns()'s time.
#if defined(__x86_64__)
inline void pause() { _mm_pause(); }
inline std::uint64_t cycle_count() { return __rdtsc(); }
#elif defined(__aarch64__)
inline void pause() { asm volatile("isb" ::: "memory"); }
inline std::uint64_t cycle_count() {
  std::uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}
#else
inline void pause() {}
inline std::uint64_t cycle_count() { return static_cast<std::uint64_t>(now_ns()); }
#endif

// One moment on both clocks.
struct TickPair {
  std::uint64_t ticks;
  std::int64_t ns;
  static TickPair now();
};

// Two moments, and the straight line through them.
class TickScale {
 public:
  TickScale(TickPair first, TickPair second) : first_(first), second_(second) {}
  std::int64_t to_ns(std::uint64_t ticks) const;

 private:
  TickPair first_;
  TickPair second_;
};

// How long a waiter may spin before it sleeps when `threads` threads of this host's job run:
// WREATH_SPIN_US, or by default 50 us with a core for each of them and 0 without, where spinning only
// keeps the other side from running.
std::int64_t spin_budget_ns(int threads);

}  // namespace wreath
