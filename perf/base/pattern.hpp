// The data of a measurement: known to every rank, exact in any order of combination, and fast to compare.
// Values repeat every kPeriod elements. This is a prime, so that a part of a power of two in the wrong place is found.
// Data that is only moved has random bits. Data that is combined is exact in every order: random integers, which wrap,
// and floats that are small integers, or powers of two for products. No partial result is ever rounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "wreath/types.hpp"

namespace wreath::perf {

inline constexpr std::size_t kPeriod = 4093;
inline constexpr std::byte kPoison{0xff};
// The most calls that combine in place, each on the results of the call before, until the results are compared. The
// results of each such call are computed.
inline constexpr int kMostCallsInPlace = 16;

// One period of an endless sequence of elements.
class Pattern {
 public:
  Pattern() = default;
  Pattern(std::vector<std::byte> period, std::size_t element_bytes)
      : period_(std::move(period)), element_bytes_(element_bytes) {}
  // Writes the sequence from element `first` on; target.size() may end within an element.
  void fill(std::span<std::byte> target, std::size_t first = 0) const;
  // Returns how many elements of `data`, which holds whole ones, differ from the sequence from element `first` on.
  std::uint64_t count_wrong(std::span<const std::byte> data, std::size_t first = 0) const;
  std::byte byte_at(std::size_t offset) const { return period_[offset % period_.size()]; }
  const std::byte* data() const { return period_.data(); }
  std::span<const std::byte> period() const { return period_; }
  std::size_t element_bytes() const { return element_bytes_; }

 private:
  std::vector<std::byte> period_;
  std::size_t element_bytes_ = 1;
};

// The mark of a call in place whose results replace the inputs of all ranks, and not of one rank alone.
inline constexpr Rank kEveryRank = -1;

// Returns the pattern that repeats one byte.
Pattern repeated(std::byte value);

// The data of all ranks for one dtype, and for one operator where there is one. Streams 0 and 1 are for alternating
// calls out of place, and stream 2 is for calls in place.
class PatternSet {
 public:
  static constexpr int kInPlace = 2;
  PatternSet(DataType dtype, std::optional<ReduceOp> op, int ranks);
  bool is_of(DataType dtype, std::optional<ReduceOp> op) const { return dtype == dtype_ && op == op_; }
  const Pattern& input(int stream, Rank rank) const { return inputs_[index(stream)][static_cast<std::size_t>(rank)]; }
  // Returns the combination of all ranks' inputs in calls out of place.
  const Pattern& combined(int stream) const { return combined_[index(stream)]; }
  // Returns the combination in place after `calls` calls, each on the results of the call before. `replaced` is the
  // rank whose input each result replaces, or kEveryRank.
  const Pattern& combined_in_place(int calls, Rank replaced);
  // Returns the calls in place that stay exact, at least 1. Then the buffer must be filled again.
  int exact_in_place_calls() const { return exact_calls_; }

 private:
  static std::size_t index(int stream) { return static_cast<std::size_t>(stream); }
  Pattern combine(std::span<const std::byte* const> inputs) const;
  std::vector<const std::byte*> inputs_of(int stream) const;

  DataType dtype_;
  std::optional<ReduceOp> op_;
  int exact_calls_;
  std::array<std::vector<Pattern>, 3> inputs_;
  std::array<Pattern, 2> combined_;
  std::map<Rank, std::vector<Pattern>> in_place_;  // by `replaced`; element k: after k + 1 calls
};

}  // namespace wreath::perf
