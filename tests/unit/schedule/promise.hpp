// What every collective promises, in floats: the inputs of one operation and the outputs they must give.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "wreath/algorithm.hpp"

namespace wreath {

class Promise {
 public:
  using Elements = std::vector<float>;
  // count_of(rank, part): elements of `part` of rank's Input; next(): data.
  Promise(const Problem& problem, ReduceOp op, std::uint32_t parts,
          const std::function<std::uint64_t(Rank, std::uint32_t)>& count_of, const std::function<float()>& next);

  // Whether that part of that buffer is the rank's memory.
  bool has_input(Rank rank, std::uint32_t part) const;
  bool has_output(Rank rank, std::uint32_t part) const;
  const Elements& input(Rank rank, std::uint32_t part) const { return inputs_[static_cast<std::size_t>(rank)][part]; }
  Elements output(Rank rank, std::uint32_t part) const;

  // How the data of a reduction changes: what a rank's input is in a sum, two of them together, a sum as a result.
  float enter(Rank rank, float value) const;
  float combine(float a, float b) const;
  float finish(float value) const;

 private:
  Elements sum(std::uint32_t part) const;

  Problem problem_;
  ReduceOp op_;
  std::vector<std::vector<Elements>> inputs_;  // by rank and part
};

}  // namespace wreath
