// The few words that algorithms share.
#pragma once

#include <vector>

#include "wreath/algorithm.hpp"

namespace wreath {

inline Chunk input(int part) { return {Buffer::Input, static_cast<std::uint32_t>(part)}; }
inline Chunk output(int part) { return {Buffer::Output, static_cast<std::uint32_t>(part)}; }

// All ranks but `me`, starting at me + 1.
inline std::vector<Rank> others(int ranks, Rank me) {
  std::vector<Rank> peers;
  for (int distance = 1; distance < ranks; ++distance) peers.push_back((me + distance) % ranks);
  return peers;
}

// What one rank alone does.
inline Schedule copy_only() {
  Schedule schedule(1);
  schedule.lane().copy(input(0), output(0));
  return schedule;
}

}  // namespace wreath
