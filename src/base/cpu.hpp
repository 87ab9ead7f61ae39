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

// A CoreSet has a bit for each core of a machine, by number. Its last byte is not 0.
using CoreSet = std::string;
// Returns the cores that the affinity mask lets the calling thread use.
CoreSet allowed_cores();
void add_cores(CoreSet& cores, const CoreSet& more);
int count_cores(const CoreSet& cores);

// The ranks of a host, and the cores that they have together. Where a launcher binds each rank to its own, no rank's
// mask has them all.
struct HostRanks {
  int ranks = 1;
  int cores = 1;
  // Says whether there are more ranks than cores.
  bool crowded() const { return ranks > cores; }
};

// Returns the ranks of a host whose masks have so many cores together. The quota of this process's cgroups cuts the
// cores. WREATH_HOST_CORES says another number.
HostRanks host_ranks(int ranks, int cores);

// The sizes of caches: of the one that a core has for itself, and of the last one. 0 where they are not known.
struct CacheSizes {
  std::uint64_t near_bytes = 0;
  std::uint64_t last_bytes = 0;
};
// Returns those of the core on which this process began.
CacheSizes cache_sizes();

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

// Returns how long a waiter may spin before it sleeps. WREATH_SPIN_US says it. By default it is 50 us with a core for
// each rank. Without such cores it is 0: spinning would only keep the other side from running.
std::int64_t spin_budget_ns(const HostRanks& host);

}  // namespace wreath
