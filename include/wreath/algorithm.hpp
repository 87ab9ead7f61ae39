// An algorithm: a pure function from a problem and a rank to a schedule. One file and one row each.
#pragma once

#include <span>
#include <string_view>

#include "wreath/schedule.hpp"
#include "wreath/types.hpp"

namespace wreath {

// All that a schedule may depend on. Every rank holds the same value.
struct Problem {
  Collective collective;
  int ranks;
  Rank root = 0;
};

// The order in which a floating-point sum is formed. Canonical: the balanced tree over absolute
// ranks, partners by rank bit, low bit first; ranks beyond the largest power of two fold into
// pairs (2i, 2i+1) first. All canonical rows give the same bits. Ring, Tree: the order of the algorithm's own
// ring or tree, equal on all ranks. Rows that combine nothing are Canonical.
enum class Order : std::uint8_t { Canonical, Ring, Tree };

// "canonical", "ring", "tree".
std::string_view name(Order order) noexcept;

// What a row costs, where every message is one tile: what `wreath plan simulate` measures and tests hold rows to.
struct Cost {
  int steps = 0;     // messages on the longest chain of messages that wait for each other
  double bytes = 0;  // sent by the rank that sends most, in units of the vector, or of all ranks' blocks together (of
                     // one rank's Input, for all_to_all); partials count like elements
};

// Bits of Algorithm::traits.
enum AlgorithmTrait : unsigned {
  kPartialMessages = 1,  // some messages may be Partial
  kSeveralParts = 2,     // some messages may be of several chunks
  kVarying = 4,          // blocks may differ in size, as in all_gather_v
};

struct Algorithm {
  std::string_view name;
  Collective collective;
  Order order;
  int minimum_resident_lanes;  // lanes of a rank that must be able to run at once
  unsigned traits;
  bool (*supports)(const Problem&);
  Schedule (*build)(const Problem&, Rank me);
  Cost (*cost)(const Problem&);
};

// The table (algorithms/registry.cpp).
std::span<const Algorithm> algorithms() noexcept;

// The row of that name, or nullptr.
const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

}  // namespace wreath
