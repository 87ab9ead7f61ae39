// A plain interpreter of lowered steps, with which verify() is compared. It computes with real floats and runs all
// ranks in one thread. It advances lanes in random order and reads messages by reference only when they are taken.
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
  // Sum, Avg or PremultipliedSum; a barrier takes the maximum instead.
  ReduceOp op = ReduceOp::Sum;
  // True asks for data whose sums are exact in any order.
  bool whole_numbers = false;
  int operations = 2;
};

// Runs `programs` (which Machine::link accepts) once, in an order drawn from `random`. Returns a text that says what
// went wrong, or an empty text. Finds a deadlock, and a message of the wrong size or form or left over. Finds an output
// that differs in a bit from what the collective promises, with sums in canonical order.
std::string interpret(std::span<const Lowered> programs, const InterpreterOptions& options, std::mt19937_64& random);

}  // namespace wreath
