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
// pairs (2i, 2i+1) first. All canonical rows give the same bits.
enum class Order : std::uint8_t { Canonical, Ring };

struct Algorithm {
  std::string_view name;
  Collective collective;
  Order order;
  int minimum_resident_lanes;  // lanes of a rank that must be able to run at once
  bool (*supports)(const Problem&);
  Schedule (*build)(const Problem&, Rank me);
};

// The table (algorithms/registry.cpp).
std::span<const Algorithm> algorithms() noexcept;

// The row of that name, or nullptr.
const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

}  // namespace wreath
