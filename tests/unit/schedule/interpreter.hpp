// A plain interpreter of lowered steps, to hold verify() against: real floats, all ranks in one thread, lanes
// advanced in random order, messages by reference read only when they are taken.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "src/schedule/geometry.hpp"
#include "src/schedule/step.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {

struct InterpreterOptions {
  Problem problem;
  unsigned traits = 0;  // of the algorithm's row
  std::uint64_t count = 1;
  std::vector<std::uint64_t> block_counts{};  // as in VerifyOptions
  std::uint64_t tile_bytes = 128;
  std::uint32_t slots = 2;
  bool in_place = false;
  ReduceOp op = ReduceOp::Sum;  // Sum, Avg or PremultipliedSum; a barrier takes the maximum
  bool whole_numbers = false;   // data whose sums are exact in any order
  int operations = 2;
};

// Runs `programs` (which Machine::link accepts) once, in an order drawn from `random`. Returns what went wrong: a
// deadlock, a message of the wrong size or form or left over, an output that differs in a bit from what the
// collective promises, sums in canonical order. Empty: nothing.
std::string interpret(std::span<const Lowered> programs, const InterpreterOptions& options, std::mt19937_64& random);

}  // namespace wreath
