// Each collective promises who holds what, and what belongs where in the end.
#pragma once

#include <cstdint>

#include "wreath/algorithm.hpp"
#include "wreath/schedule.hpp"

namespace wreath {

// The claim that is made for the schedules of a problem.
struct Claim {
  Problem problem;
  Order order = Order::Canonical;
  unsigned traits = 0;  // of the algorithm's row
};

enum class Holding : std::uint8_t { None, OwnPart, AllParts };

// Returns which parts of Input or Output are `rank`'s memory.
Holding holding(const Problem& problem, Buffer buffer, Rank rank) noexcept;

// The final value of a part of Output. It is the sum of that part over all ranks, or part `part` of one rank's Input.
struct Owed {
  bool sum;
  Rank rank;
  std::uint32_t part;
};
Owed owed(const Problem& problem, Rank rank, std::uint32_t part) noexcept;

// Returns whether Output may be (a part of) Input's memory, or Input of Output's.
bool has_in_place(Collective collective) noexcept;

}  // namespace wreath
