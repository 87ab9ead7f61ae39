// An algorithm is a pure function from a problem and a rank to a schedule. Each has one file and one row.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "wreath/schedule.hpp"
#include "wreath/types.hpp"

namespace wreath {

// The values on which a schedule may depend. It depends on nothing else. Every rank holds the same problem.
struct Problem {
  Collective collective;
  int ranks;
  Rank root = 0;
};

// The order in which a floating-point sum is formed. Canonical is the balanced tree over absolute ranks: partners by
// rank bit, low bit first. Ranks beyond the largest power of two fold into pairs (2i, 2i+1) first. All canonical rows
// give the same bits. Ring and Tree are the orders of the algorithm's own ring or tree, equal on all ranks. Rows that
// combine nothing are Canonical.
enum class Order : std::uint8_t { Canonical, Ring, Tree };

// Returns "canonical", "ring" or "tree".
std::string_view name(Order order) noexcept;

// The cost of a row, where every message is one tile. `wreath plan simulate` measures it, and tests compare rows with
// it.
struct Cost {
  // The number of messages on the longest chain of messages that wait for each other.
  int steps = 0;
  // The bytes of the rank that sends most, in units of the vector. For blocks the unit is all ranks' blocks together,
  // and for all_to_all it is one rank's Input. Partials count like elements.
  double bytes = 0;
};

// The bits of Algorithm::traits.
enum AlgorithmTrait : unsigned {
  // Some messages may be Partial.
  kPartialMessages = 1,
  // Some messages may have several chunks.
  kSeveralParts = 2,
  // Blocks may differ in size, as in all_gather_v.
  kVarying = 4,
};

struct Algorithm {
  std::string_view name;
  Collective collective;
  Order order;
  // The number of a rank's lanes that must be able to run at once.
  int minimum_resident_lanes;
  unsigned traits;
  bool (*supports)(const Problem&);
  Schedule (*build)(const Problem&, Rank me);
  Cost (*cost)(const Problem&);
};

// Returns all rows of the table (algorithms/registry.cpp). Each refers to the object that the algorithm's file defines.
std::span<const std::reference_wrapper<const Algorithm>> algorithms() noexcept;

// Returns the row of that name, or nullptr when there is none.
const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

}  // namespace wreath
