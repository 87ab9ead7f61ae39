// The few functions that algorithms share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "wreath/algorithm.hpp"

namespace wreath {

inline Chunk input(int part) { return {Buffer::Input, static_cast<std::uint32_t>(part)}; }
inline Chunk output(int part) { return {Buffer::Output, static_cast<std::uint32_t>(part)}; }
inline Chunk scratch(int slot, int part) {
  return {Buffer::Scratch, static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(slot)};
}
inline Chunk partial(int slot, int part) {
  return {Buffer::Partial, static_cast<std::uint32_t>(part), static_cast<std::uint32_t>(slot)};
}

inline constexpr Incoming kPartial{.form = Form::Partial};

// Returns `count` numbers from `first` on.
inline std::vector<int> stretch(int first, int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}
// Returns `count` numbers from `first` on, in a ring of `ranks`.
inline std::vector<int> stretch_of_ring(int first, int count, int ranks) {
  std::vector<int> numbers = stretch(first, count);
  for (int& number : numbers) number %= ranks;
  return numbers;
}

// Returns these parts of a buffer. In Scratch and Partial, their places begin at `slot`.
Chunks chunks(Buffer buffer, std::span<const int> parts, int slot = 0);

// Returns the number of messages into which a message of so many chunks is cut.
constexpr int messages(int chunks) { return (chunks + kMaximumMessageParts - 1) / kMaximumMessageParts; }

// A rank takes this in an exchange: target = message, or, with a source, target = source + message.
struct Taken {
  Rank from;
  Chunks target;
  Chunks source{};
  Incoming incoming{};
};
// Sends and receives in turns, message by message, so that one slot is enough where both ends send first.
void exchange(Lane& lane, Rank to, const Chunks& sent, const Taken& taken);

// The ranks in a circle around `me`. Distances are 0 to `ranks`.
struct Ring {
  static Ring of(const Problem& problem, Rank me) { return {problem.ranks, me}; }
  Rank after(int distance) const { return (me + distance) % ranks; }
  Rank before(int distance) const { return (me + ranks - distance) % ranks; }

  int ranks;
  Rank me;
};

// Sends complete blocks once around the ring. Nobody needs the block that the next rank made.
inline void pass_around(Lane& lane, const Ring& ring) {
  for (int k = 1; k < ring.ranks; ++k) {
    lane.recv(ring.before(1), output(ring.before(k)));
    if (k < ring.ranks - 1) lane.send(ring.after(1), output(ring.before(k)));
  }
}
// Sends partial sums once around the ring. The last one to arrive completes the rank's own block.
inline void reduce_around(Lane& lane, const Ring& ring) {
  lane.send(ring.after(1), input(ring.before(1)));
  for (int k = 2; k <= ring.ranks; ++k) {
    const bool last = k == ring.ranks;
    const Chunk sum = last ? output(ring.me) : partial(0, ring.before(k));
    lane.recv_reduce(ring.before(1), input(ring.before(k)), sum, k == 2 ? Incoming{} : kPartial);
    if (!last) lane.send(ring.after(1), sum);
  }
}

// Returns all ranks but `me`, starting at me + 1.
inline std::vector<Rank> others(int ranks, Rank me) { return stretch_of_ring(me + 1, ranks - 1, ranks); }

// The schedule of one rank alone copies its vector, or its one block.
inline Schedule copy_only() {
  Schedule schedule(1);
  schedule.lane().copy(input(0), output(0));
  return schedule;
}

// Returns floor(log2(n)), where n is 1 at least.
constexpr int floor_log2(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n))) - 1; }
// Returns ceil(log2(n)), where n is 1 at least.
constexpr int ceiling_log2(int n) { return n == 1 ? 0 : floor_log2(n - 1) + 1; }

// Algorithm::supports of most rows.
inline bool any_ranks(const Problem&) { return true; }
inline bool power_of_two_ranks(const Problem& problem) {
  return std::has_single_bit(static_cast<unsigned>(problem.ranks));
}

// Algorithm::cost of rows in which a rank moves all blocks but one, at once or one after the other.
inline Cost cost_of_blocks_at_once(const Problem& problem) {
  return {problem.ranks == 1 ? 0 : 1, (problem.ranks - 1.0) / problem.ranks};
}
inline Cost cost_of_blocks_in_turns(const Problem& problem) {
  return {problem.ranks - 1, (problem.ranks - 1.0) / problem.ranks};
}
// Algorithm::cost of rows in which the vector goes from rank to rank.
inline Cost cost_of_chain(const Problem& problem) { return {problem.ranks - 1, problem.ranks == 1 ? 0.0 : 1.0}; }

// One load combines the messages of all other ranks.
inline bool ranks_of_one_load(const Problem& problem) { return problem.ranks - 1 <= kMaximumFanIn; }

}  // namespace wreath
