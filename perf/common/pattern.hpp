// The data of a measurement: known to every rank, exact in any order of summation, quick to compare.
//
// Values repeat every kPeriod elements, a prime, so that a part of a power of two in the wrong place
// shows. They are small positive integers: every partial sum fits the type's exact integers, hence
// the sum is the same bits in any order. 0xff bytes (NaN, -1) are never a right value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wreath/types.hpp"

namespace wreath::perf {

inline constexpr std::size_t kPeriod = 16381;
inline constexpr std::byte kPoison{0xff};

// One period of a sequence of elements.
class Pattern {
 public:
  Pattern() = default;
  Pattern(DataType dtype, std::span<const double> values);
  // Writes the first target.size() bytes of the endless sequence.
  void fill(std::span<std::byte> target) const;
  // Elements of `data` (whole ones) whose bits differ from the sequence's.
  std::uint64_t count_wrong(std::span<const std::byte> data) const;
  std::byte byte_at(std::size_t offset) const { return period_[offset % period_.size()]; }

 private:
  std::vector<std::byte> period_;
  std::size_t element_bytes_ = 1;
};

// What one rank needs for sums of one dtype.
class SumPatterns {
 public:
  SumPatterns(DataType dtype, int rank, int ranks);
  // Out of place: this rank's input, and the sum, for calls of either parity.
  const Pattern& input(int parity) const { return input_[static_cast<std::size_t>(parity)]; }
  const Pattern& sum(int parity) const { return sum_[static_cast<std::size_t>(parity)]; }
  // In place, each call sums its own output: after k calls every element is ranks^(k-1) times the sum.
  const Pattern& in_place_input() const { return in_place_input_; }
  Pattern in_place_after(int calls) const;
  // Calls in place that stay exact, at least 1; then the buffer must be filled anew.
  int exact_in_place_calls() const { return exact_calls_; }

 private:
  DataType dtype_;
  int ranks_;
  int exact_calls_;
  std::array<Pattern, 2> input_;
  std::array<Pattern, 2> sum_;
  Pattern in_place_input_;
  std::vector<double> in_place_sum_;
};

}  // namespace wreath::perf
