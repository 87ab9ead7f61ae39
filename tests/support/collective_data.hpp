// Holds all ranks' inputs of a call, and their combination by the reference.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "perf/base/pattern.hpp"
#include "perf/base/reference.hpp"

namespace wreath::test {

// Moved values are random bits. Exact values combine alike in every order. Revealing values are floats that differ by
// many powers of two, so that every other order shows in the bits. A few of them are special. Revealing integers may
// wrap.
enum class Values { Moved, Exact, Revealing };

class CollectiveData {
 public:
  // Makes the first `elements` elements of every rank's input.
  CollectiveData(DataType dtype, ReduceOp op, int ranks, std::size_t elements, Values values) {
    const bool reveals = values == Values::Revealing && is_floating(dtype);
    const bool combines = values != Values::Moved;
    std::optional<perf::PatternSet> patterns;
    if (!reveals) patterns.emplace(dtype, combines ? std::optional(op) : std::nullopt, ranks);
    std::vector<const std::byte*> sources;
    for (Rank rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte>& input = inputs_.emplace_back(elements * size_of(dtype));
      reveals ? write_revealing(dtype, op, rank, input) : patterns->input(0, rank).fill(input);
      sources.push_back(input.data());
    }
    combined_.resize(combines ? elements * size_of(dtype) : 0);
    if (combines) perf::reduce_ranks(dtype, op, sources, combined_.data(), elements);
  }
  const std::byte* input(Rank rank) const { return inputs_[static_cast<std::size_t>(rank)].data(); }
  const std::byte* combined() const { return combined_.data(); }

 private:
  static double revealing(std::uint64_t bits, ReduceOp op) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (bits >> 52 & 511) {  // seldom one of the first cases
      case 0: return std::numeric_limits<double>::quiet_NaN();
      case 1: return kInfinity;
      case 2: return -kInfinity;
      case 3: return -0.0;
      default: break;
    }
    const double mantissa = 1 + static_cast<double>(bits & 0xFFFFFF) / 0x1000000;
    const double sign = (bits >> 24 & 1) != 0 ? -1 : 1;
    if (op == ReduceOp::Prod) return sign * (0.5 + mantissa / 2) * ((bits >> 25 & 1) != 0 ? 0.75 : 1);
    return sign * std::ldexp(mantissa, static_cast<int>(bits >> 32 & 15) - 8);
  }
  static void write_revealing(DataType dtype, ReduceOp op, Rank rank, std::vector<std::byte>& input) {
    std::vector<double> values(input.size() / size_of(dtype));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = revealing(perf::mix((static_cast<std::uint64_t>(rank) << 40) + i + 1), op);
    }
    perf::encode(dtype, values, input.data());
  }

  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::byte> combined_;
};

}  // namespace wreath::test
