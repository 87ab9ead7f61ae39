// The few words that algorithms share.
#pragma once

#include <bit>
#include <utility>
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

// All ranks but `me`, starting at me + 1.
inline std::vector<Rank> others(int ranks, Rank me) {
  std::vector<Rank> peers;
  for (int distance = 1; distance < ranks; ++distance) peers.push_back((me + distance) % ranks);
  return peers;
}

// What one rank alone does with a vector, or with its one block.
inline Schedule copy_only() {
  Schedule schedule(1);
  schedule.lane().copy(input(0), output(0));
  return schedule;
}

// ceil(log2(n)), n >= 1.
inline int ceiling_log2(int n) { return static_cast<int>(std::bit_width(static_cast<unsigned>(n - 1))); }

}  // namespace wreath
