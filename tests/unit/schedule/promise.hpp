// A Promise holds the inputs of one operation of any collective in floats, and the outputs that the operation must
// give.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "wreath/algorithm.hpp"

namespace wreath {

class Promise {
 public:
  using Elements = std::vector<float>;
  // `count_of(rank, part)` returns the elements of `part` of the rank's Input; `next()` returns the next element of the
  // data.
  Promise(const Problem& problem, ReduceOp op, std::uint32_t parts,
          const std::function<std::uint64_t(Rank, std::uint32_t)>& count_of, const std::function<float()>& next);

  // Returns whether the rank has memory for that part of its Input.
  bool has_input(Rank rank, std::uint32_t part) const;
  // Returns whether the rank has memory for that part of its Output.
  bool has_output(Rank rank, std::uint32_t part) const;
  const Elements& input(Rank rank, std::uint32_t part) const { return inputs_[static_cast<std::size_t>(rank)][part]; }
  Elements output(Rank rank, std::uint32_t part) const;

  // Returns what a rank's input contributes to a sum.
  float enter(Rank rank, float value) const;
  // Returns the sum of two values, or their maximum in a barrier.
  float combine(float a, float b) const;
  // Returns the result that a complete sum gives.
  float finish(float value) const;

 private:
  Elements sum(std::uint32_t part) const;

  Problem problem_;
  ReduceOp op_;
  std::vector<std::vector<Elements>> inputs_;  // by rank and part
};

}  // namespace wreath
