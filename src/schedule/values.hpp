// The symbolic values with which verify() computes in place of numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "wreath/types.hpp"

namespace wreath {

// Folds `values` in canonical order. The first 2m of k = 2^p + m values become m pairs (2i, 2i+1). Then neighbours
// combine, level by level. Overwrites `values`; k is 1 at least.
template <typename T, typename Combine>
T canonical_fold(std::span<T> values, Combine&& combine) {
  const std::size_t power = std::bit_floor(values.size());
  const std::size_t folded = values.size() - power;
  for (std::size_t i = 0; i < folded; ++i) values[i] = combine(values[2 * i], values[2 * i + 1]);
  for (std::size_t i = folded; i < power && folded > 0; ++i) values[i] = values[i + folded];
  for (std::size_t width = power; width > 1; width /= 2) {
    for (std::size_t i = 0; i < width / 2; ++i) values[i] = combine(values[2 * i], values[2 * i + 1]);
  }
  return values[0];
}

// The stage of a value of a reduction: an untouched input, a sum that may still grow, or a result.
enum class Stage : std::uint8_t { Untouched, Unfinished, Finished };

// The sum of some ranks' contributions to one cell (the elements of one tile of one part).
struct Value {
  // An exact value has a bit per rank. Another one has the sum of the ranks' weights mod 2^61 - 1.
  std::uint64_t contributions = 0;
  // The hash of the tree of additions over absolute ranks. It is the same for a + b and b + a.
  std::uint64_t tree = 0;
  std::uint32_t cell = 0;  // the elements it is made of
  Stage stage = Stage::Untouched;
};

enum class ValueFault : std::uint8_t { None, CountedTwice, OtherElements, Finished };

// The values of a problem of `ranks` ranks. They are exact up to 64 ranks. Beyond that they are made of random weights,
// where a wrong sum passes with a probability of 2^-61. Weights would not do where contributions may be counted twice
// (a barrier). The values of a barrier know the 64 ranks of a window exactly, and nothing of the others.
class Values {
 public:
  explicit Values(int ranks) : ranks_(ranks) {}
  Values(int ranks, int window) : ranks_(ranks), window_(window) {}
  static constexpr int kWindowRanks = 64;

  bool overlapping() const { return window_ >= 0; }
  bool exact() const { return overlapping() || ranks_ <= kWindowRanks; }

  Value leaf(Rank rank, std::uint32_t cell) const {
    return {exact() ? bit(rank) : weight(rank, cell), mix(static_cast<std::uint64_t>(rank) + 1), cell};
  }

  Value combine(const Value& a, const Value& b, ValueFault& fault) const {
    if (a.cell != b.cell) fault = ValueFault::OtherElements;
    if (a.stage == Stage::Finished || b.stage == Stage::Finished) fault = ValueFault::Finished;
    const bool overlap = exact() && (a.contributions & b.contributions) != 0;
    if (overlap && !overlapping()) fault = ValueFault::CountedTwice;
    const std::uint64_t sum = exact() ? a.contributions | b.contributions : add(a.contributions, b.contributions);
    const auto [low, high] = a.tree < b.tree ? std::pair(a.tree, b.tree) : std::pair(b.tree, a.tree);
    return {sum, mix(low * 0x9e3779b97f4a7c15u + std::rotl(high, 29)), a.cell, Stage::Unfinished};
  }

  Value canonical(std::span<Value> values, ValueFault& fault) const {
    return canonical_fold(values, [&](const Value& a, const Value& b) { return combine(a, b, fault); });
  }

  // Returns the value of all ranks' contributions to `cell`, in canonical order. It takes O(ranks).
  Value full(std::uint32_t cell) const;

 private:
  static constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
  std::uint64_t bit(Rank rank) const {
    if (overlapping() && rank / kWindowRanks != window_) return 0;
    return std::uint64_t{1} << (rank % kWindowRanks);
  }
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  static constexpr std::uint64_t add(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t sum = a + b;
    return sum >= kPrime ? sum - kPrime : sum;
  }
  static constexpr std::uint64_t weight(Rank rank, std::uint32_t cell) {
    return mix(mix(static_cast<std::uint64_t>(rank) + 0x5eed) ^ (std::uint64_t{cell} << 20)) % kPrime;
  }
  int ranks_;
  int window_ = -1;
};

}  // namespace wreath
