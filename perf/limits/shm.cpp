// Four handwritten all-reduces over memory that all threads reach, and the flag between two threads.
#include "perf/limits/shm.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernels.hpp"
#include "perf/limits/loops.hpp"
#include "perf/limits/machine.hpp"
#include "perf/limits/team.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kLineFloats = 14;  // with the flag: 64 bytes
constexpr std::size_t kLineLimitBytes = 1024;
constexpr std::size_t kPushLimitBytes = std::size_t{4} << 20;

// A cache line that carries its own flag.
struct alignas(64) Line {
  float values[kLineFloats];
  std::uint64_t sequence;
};

// The memory that one rank owns and all ranks reach.
struct RankMemory {
  explicit RankMemory(std::size_t bytes)
      : input(bytes),
        output(bytes),
        slots{Pages(std::min(bytes, kPushLimitBytes)), Pages(std::min(bytes, kPushLimitBytes))},
        lines{std::vector<Line>(kLineLimitBytes / 56 + 1), std::vector<Line>(kLineLimitBytes / 56 + 1)} {}
  Pages input;
  Pages output;
  Pages slots[2];
  std::vector<Line> lines[2];
  Flag pushed;
};

// The calls of one rank. Every rank makes the same calls.
class AllReduce {
 public:
  AllReduce(TeamMember& member, std::vector<RankMemory>& memory, std::size_t elements)
      : member_(member), memory_(memory), own_(memory[static_cast<std::size_t>(member.rank())]), elements_(elements) {
    everything_.source_count = member.ranks();
    everything_.target_count = 1;
    everything_.targets[0] = own_.output.floats();
    part_ = everything_;
    part_.target_count = member.ranks();
    const auto ranks = static_cast<std::size_t>(member.ranks());
    const auto rank = static_cast<std::size_t>(member.rank());
    const std::size_t share = elements / ranks >= 16 ? elements / ranks / 16 * 16 : elements / ranks;
    const std::size_t first = rank * share;
    part_elements_ = rank + 1 == ranks ? elements - first : share;
    for (std::size_t i = 0; i < ranks; ++i) {
      everything_.sources[i] = memory[i].input.floats();
      part_.sources[i] = memory[i].input.floats() + first;
      part_.targets[i] = memory[i].output.floats() + first;
    }
  }

  // Writes a new input with the same value at every element and on every rank, so that the sum is ranks x value.
  void rewrite() {
    value_ = value_ >= 7 ? 1 : value_ + 1;
    std::fill_n(own_.input.floats(), elements_, value_);
  }
  bool output_is_right() const {
    const float expected = value_ * static_cast<float>(member_.ranks());
    const float* output = own_.output.floats();
    return std::all_of(output, output + elements_, [&](float value) { return value == expected; });
  }

  void direct_parts(bool streaming) {
    member_.barrier();
    sum_to_all(part_, part_elements_, streaming);
    member_.barrier();
  }

  void direct_everything() {
    member_.barrier();
    sum_to_all(everything_, elements_, false);
    member_.barrier();
  }

  // Two slots are enough: message i of a peer says that the peer has read this rank's message i - 1.
  void push() {
    const std::size_t turn = ++sequence_ % 2;
    copy_kernels().fill(own_.slots[turn].data(), own_.input.data(), elements_ * sizeof(float));
    store_release(own_.pushed.value, sequence_);
    SumWork work = everything_;
    for (int i = 0; i < member_.ranks(); ++i) {
      if (i == member_.rank()) continue;
      wait_for(peer(i).pushed.value, sequence_);
      work.sources[i] = peer(i).slots[turn].floats();
    }
    sum_to_all(work, elements_, false);
  }

  void push_lines() {
    const std::size_t turn = ++sequence_ % 2;
    const std::size_t lines = (elements_ + kLineFloats - 1) / kLineFloats;
    for (std::size_t i = 0; i < lines; ++i) {
      Line& line = own_.lines[turn][i];
      std::memcpy(line.values, own_.input.floats() + i * kLineFloats, sizeof(line.values));
      store_release(line.sequence, sequence_);
    }
    std::memcpy(own_.output.floats(), own_.input.floats(), elements_ * sizeof(float));
    for (int i = 0; i < member_.ranks(); ++i) {
      if (i != member_.rank()) add_lines(peer(i).lines[turn], lines);
    }
  }

 private:
  RankMemory& peer(int rank) { return memory_[static_cast<std::size_t>(rank)]; }

  // Adds whole lines. The pages are larger than 1 KiB, so that the last line fits.
  void add_lines(const std::vector<Line>& from, std::size_t lines) {
    for (std::size_t i = 0; i < lines; ++i) {
      wait_for(from[i].sequence, sequence_);
      float* output = own_.output.floats() + i * kLineFloats;
      for (std::size_t j = 0; j < kLineFloats; ++j) output[j] += from[i].values[j];
    }
  }

  TeamMember& member_;
  std::vector<RankMemory>& memory_;
  RankMemory& own_;
  std::size_t elements_;
  SumWork everything_;
  SumWork part_;
  std::size_t part_elements_ = 0;
  std::uint64_t sequence_ = 0;
  float value_ = 0;
};

// Keeps the time of the fastest candidate by this member's clock, or NaN when a result is wrong.
class Contest {
 public:
  Contest(TeamMember& member, AllReduce& reduce, bool rewrite, const Effort& effort)
      : member_(member), reduce_(reduce), rewrite_(rewrite), effort_(effort) {}

  template <typename Op>
  void enter(Op op) {
    reduce_.rewrite();
    const double us = rewrite_ ? member_.median_prepared_us(
                                     effort_, [&] { reduce_.rewrite(); }, op)
                               : member_.median_us(effort_, op);
    right_ = right_ && reduce_.output_is_right();
    member_.barrier();
    best_us_ = std::min(best_us_, us);
  }
  double best_us() const { return right_ ? best_us_ : kNotANumber; }

 private:
  TeamMember& member_;
  AllReduce& reduce_;
  bool rewrite_;
  Effort effort_;
  double best_us_ = std::numeric_limits<double>::infinity();
  bool right_ = true;
};

double best_all_reduce_us(TeamMember& member, std::vector<RankMemory>& memory, std::size_t bytes, bool rewrite,
                          const Effort& effort) {
  AllReduce reduce(member, memory, bytes / sizeof(float));
  Contest contest(member, reduce, rewrite, effort);
  if (bytes <= kLineLimitBytes) contest.enter([&] { reduce.push_lines(); });
  if (bytes <= kPushLimitBytes) contest.enter([&] { reduce.push(); });
  contest.enter([&] { reduce.direct_everything(); });
  contest.enter([&] { reduce.direct_parts(false); });
  if (bytes >= kPushLimitBytes) contest.enter([&] { reduce.direct_parts(true); });
  return contest.best_us();
}

}  // namespace

double shm_all_reduce_limit_us(std::size_t bytes, int ranks, bool rewrite, const Effort& effort) {
  if (ranks < 2 || ranks > kMaximumTeam || pick_cores(ranks).empty()) return kNotANumber;
  std::vector<RankMemory> memory;
  for (int rank = 0; rank < ranks; ++rank) memory.emplace_back(bytes);
  std::vector<double> by_rank(static_cast<std::size_t>(ranks), kNotANumber);
  run_team(ranks, [&](TeamMember& member) {
    by_rank[static_cast<std::size_t>(member.rank())] = best_all_reduce_us(member, memory, bytes, rewrite, effort);
  });
  double sum = 0;
  for (const double us : by_rank) sum += us;
  return sum / ranks;
}

double flag_flight_ns(const Effort& effort) {
  double round_trip_us = kNotANumber;
  Flag there;
  Flag back;
  run_team(2, [&](TeamMember& member) {
    std::uint64_t sequence = 0;
    const double us = member.median_us(effort, [&] {
      ++sequence;
      if (member.rank() == 0) {
        store_release(there.value, sequence);
        wait_for(back.value, sequence);
      } else {
        wait_for(there.value, sequence);
        store_release(back.value, sequence);
      }
    });
    if (member.rank() == 0) round_trip_us = us;
  });
  return round_trip_us * 1000 / 2;
}

}  // namespace wreath::perf
