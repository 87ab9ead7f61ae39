// What each collective promises: who holds what, and what belongs where in the end.
#pragma once

#include <cstdint>

#include "wreath/algorithm.hpp"
#include "wreath/schedule.hpp"

namespace wreath {

// What the schedules of a problem are said to be.
struct Claim {
  Problem problem;
  Order order = Order::Canonical;
  unsigned traits = 0;  // of the algorithm's row
};

enum class Holding : std::uint8_t { None, OwnPart, AllParts };

// Which parts of Input or Output are `rank`'s memory.
Holding holding(const Problem& problem, Buffer buffer, Rank rank) noexcept;

// What a part of Output is in the end: the sum of that part over all ranks, or part `part` of one rank's Input.
struct Owed {
  bool sum;
  Rank rank;
  std::uint32_t part;
};
Owed owed(const Problem& problem, Rank rank, std::uint32_t part) noexcept;

// Whether Output may be (a part of) Input's memory, or Input of Output's.
bool has_in_place(Collective collective) noexcept;

}  // namespace wreath
