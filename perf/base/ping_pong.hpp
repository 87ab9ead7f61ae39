// Kernels that measure the parts of a small call. One does nothing. In the other, two blocks answer each other with the
// words of small all_reduces (kernels/block/flagged_word.hpp).
#pragma once

#include <cstdint>

#include "kernels/block/flagged_word.hpp"
#include "wreath/host_device.hpp"

namespace wreath::perf {

struct NothingRun {
  std::uint32_t unused;
};

template <typename Block>
WREATH_HOST_DEVICE inline void run_nothing(Block&, const NothingRun&) {}

// A run of two blocks of one thread, which run at once. `words` has the zeroed words of both blocks, in different
// lines.
struct PingPongRun {
  FlaggedWord* words[2];
  std::uint32_t rounds;  // from 1
  // The time after which a block ends that waits for the other one.
  std::uint64_t stall_ns;
  std::uint32_t* answered;  // rounds that the other block answered
};

// Waits for `flag` in `word`, and returns whether it came in time.
template <typename Block>
WREATH_HOST_DEVICE inline bool await_flag(Block& block, const FlaggedWord& word, std::uint32_t flag,
                                          std::uint64_t stall_ns) {
  constexpr unsigned kLooks = 4096;  // between readings of the clock
  const std::uint64_t begin = block.clock_ns();
  for (unsigned looks = 1; flag_of(load_relaxed(word)) != flag; ++looks) {
    if (looks % kLooks != 0) continue;
    if (block.clock_ns() - begin > stall_ns) return false;
    block.pause();
  }
  return true;
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_ping_pong(Block& block, const PingPongRun& run) {
  const unsigned own = block.block();
  if (block.thread() != 0) return;
  std::uint32_t round = 1;
  for (; round <= run.rounds; ++round) {
    if (own == 0) store_word(*run.words[0], flagged(round, round));
    if (!await_flag(block, *run.words[1 - own], round, run.stall_ns)) break;
    if (own == 1) store_word(*run.words[1], flagged(round, round));
  }
  if (own == 0) *run.answered = round - 1;
}

}  // namespace wreath::perf
