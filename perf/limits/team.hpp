// A few pinned threads that meet at flag barriers and time their common work.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "perf/base/statistics.hpp"
#include "perf/limits/effort.hpp"
#include "src/base/clock.hpp"
#include "src/base/cpu.hpp"
#include "src/base/memory_order.hpp"

namespace wreath::perf {

// A sequence number in a line of its own, apart from the neighbour line that hardware fetches with it.
struct alignas(128) Flag {
  std::uint64_t value = 0;
  // When its thread came to start_together(), at sequence numbers of either parity.
  std::int64_t came_ns[2] = {};
};

// Spins until the word is at least `value`. At first it spins without pauses, which is fastest. Later it gives the core
// away now and then, in case the other side needs it.
inline void wait_for(const std::uint64_t& word, std::uint64_t value) {
  for (int i = 0; load_acquire(word) < value; ++i) {
    if (i > 1000) pause();
    if (i > 20'000) sched_yield();
  }
}

// The state that the threads of a team share.
struct TeamState {
  explicit TeamState(int ranks) : flags(static_cast<std::size_t>(ranks)) {}
  std::vector<Flag> flags;
  int calls = 0;  // of a round; written by rank 0 between barriers
};

// One thread of a team. Every member makes the same calls in the same order.
class TeamMember {
 public:
  TeamMember(int rank, TeamState& state) : rank_(rank), state_(state) {}
  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(state_.flags.size()); }

  void barrier() {
    store_release(state_.flags[static_cast<std::size_t>(rank_)].value, ++sequence_);
    for (const Flag& flag : state_.flags) wait_for(flag.value, sequence_);
  }

  // Returns at one instant on all threads, soon after the last has come, and says when that was by now_ns(). A barrier
  // lets threads go one after the other.
  std::int64_t start_together() {
    constexpr std::int64_t kWaitNs = 1000;
    // A thread that is ahead writes to the other place until this one has come to the next barrier.
    const std::size_t place = (sequence_ + 1) % 2;
    std::int64_t last_ns = state_.flags[static_cast<std::size_t>(rank_)].came_ns[place] = now_ns();
    barrier();
    for (const Flag& flag : state_.flags) last_ns = std::max(last_ns, flag.came_ns[place]);
    while (now_ns() < last_ns + kWaitNs) {
    }
    return last_ns + kWaitNs;
  }

  // Returns the median time of op(), which all members call repeatedly.
  template <typename Op>
  double median_us(const Effort& effort, Op op) {
    time_us(2, op);
    agree_on_calls(calls_per_round(effort, time_us(4, op)));
    time_us(state_.calls, op);
    std::vector<double> times;
    for (int round = 0; round < effort.rounds; ++round) times.push_back(time_us(state_.calls, op));
    return summarize(times).p50;
  }

  // Returns the median time of op() with prepare() before each call, outside the clock.
  template <typename Prepare, typename Op>
  double median_prepared_us(const Effort& effort, Prepare prepare, Op op) {
    const auto both = [&] { prepare(), op(); };
    time_us(2, both);
    const int calls = calls_per_round(effort, time_us(4, both)) * effort.rounds;
    agree_on_calls(std::clamp(calls, effort.rounds, 20'000));
    std::vector<double> times_us;
    for (int call = 0; call < state_.calls; ++call) {
      prepare();
      const std::int64_t start_ns = start_together();
      op();
      times_us.push_back(static_cast<double>(now_ns() - start_ns) / 1000);
    }
    return median(times_us);
  }

 private:
  template <typename Op>
  double time_us(int calls, Op& op) {
    barrier();
    const std::int64_t start = now_ns();
    for (int call = 0; call < calls; ++call) op();
    barrier();
    return static_cast<double>(now_ns() - start) / 1000 / calls;
  }

  void agree_on_calls(int calls) {
    if (rank_ == 0) state_.calls = calls;
    barrier();
  }

  int rank_;
  TeamState& state_;
  std::uint64_t sequence_ = 0;
};

// Runs body on `ranks` threads, each pinned to a core of its own; the caller is rank 0. Returns false without a run
// when this process has fewer cores.
bool run_team(int ranks, const std::function<void(TeamMember&)>& body);

}  // namespace wreath::perf
