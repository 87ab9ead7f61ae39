// Gives the processor as this process may use it: cores, a cycle counter, and a wait without sleep.
#pragma once

#include <cstdint>
#include <string>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include "src/base/clock.hpp"
#endif

namespace wreath {

// Returns the cores that this process can really run on at once, at least 1. That is the affinity mask, cut to the CPU
// quota of its cgroups (v1 or v2), rounded up. It is read anew at each call, so callers keep the value.
int usable_cores();

// Returns the same by the files of another root ("/" is the system), for tests. `affinity_cores` stands for the
// affinity mask.
int usable_cores(const char* root, int affinity_cores);

// Returns the cores that the ranks of this host have together. A launcher that gives each rank its own cores sets
// WREATH_HOST_CORES to them; without it they are usable_cores().
int cores_of_ranks();

// Returns the processor's maker, "GenuineIntel" or "AuthenticAMD"; empty where it does not say.
std::string cpu_vendor();

// pause() tells the core that this is a spin loop. cycle_count() is a clock that runs at a constant rate and is read in
// a few nanoseconds; TickScale turns it into now_ns()'s time.
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

// Holds one moment on both clocks.
struct TickPair {
  std::uint64_t ticks;
  std::int64_t ns;
  static TickPair now();
};

// Converts ticks to nanoseconds by the straight line through two moments.
class TickScale {
 public:
  TickScale(TickPair first, TickPair second) : first_(first), second_(second) {}
  std::int64_t to_ns(std::uint64_t ticks) const;

 private:
  TickPair first_;
  TickPair second_;
};

// Returns how long a waiter may spin before it sleeps when `threads` threads of this host's job run. WREATH_SPIN_US
// says it. By default it is 50 us with a core for each of them. Without such cores it is 0: spinning would only keep
// the other side from running.
std::int64_t spin_budget_ns(int threads);

}  // namespace wreath
