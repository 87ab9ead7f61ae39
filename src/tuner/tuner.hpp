// Chooses algorithm, data lanes and tile for a call, from what all ranks know to be equal.
#pragma once

#include <cstddef>
#include <string>

#include "wreath/algorithm.hpp"
#include "wreath/result.hpp"

namespace wreath {

// What a communicator's choices depend on. Equal on all ranks.
struct TunerContext {
  int ranks = 1;
  bool all_mapped = true;      // every pair of ranks maps each other's memory
  bool reproducible = true;    // only canonical rows, unless one is named
  std::string algorithm;       // a named row; empty: choose
  int data_lanes = 0;          // 0: choose
  std::size_t tile_bytes = 0;  // 0: choose
  std::size_t slot_bytes = 0;  // the largest tile
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  int data_lanes = 1;
  std::size_t tile_bytes = 0;
  bool small = false;  // the straight small-message code of one_shot
};

// Unavailable when a named row does not exist or does not support the problem: the message lists
// the rows that do.
Status check_tuning(const TunerContext& context, Collective collective);

// Never fails for a context that check_tuning accepted.
Choice choose(const TunerContext& context, Collective collective, std::size_t bytes);

// "two_shot lanes=1 tile=256K order=canonical".
std::string describe(const Choice& choice);

}  // namespace wreath
