// A small model on meshes that are divided by hand. The header says what each rank holds, and gives every element its
// value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/checkpoint/checkpoint.hpp"

namespace wreath::training::test {

// The numbers of data, pipeline and tensor ranks; tensor ranks are innermost. With `zero` a rank's pieces are its part
// of all its elements, which may begin and end inside a parameter. Without `zero`, data ranks hold the same elements.
struct Division {
  int dp = 1;
  int pp = 1;
  int tp = 1;
  bool zero = false;
  int ranks() const { return dp * pp * tp; }
  std::string name() const;
};

// Returns the value of element `index` of array `array` (0: weights) of a parameter after `step`. It is exact in
// float32.
float value_of(const std::string& parameter, int array, std::int64_t index, std::int64_t step);

// The elements that rank `rank` holds, with two moments.
class RankState {
 public:
  RankState(const Division& division, int rank);
  RankState(RankState&&) = delete;

  ParameterList parameters;
  std::vector<Piece> pieces;
  std::vector<float> moments[2];
  Shard shard();
  // Gives every element its value_of(), and padding zero.
  void fill(std::int64_t step);
  // Gives every element and all padding NaN.
  void spoil();
  // Returns a text that says what differs from fill(step), or an empty text if every bit is equal.
  std::string difference(std::int64_t step) const;

 private:
  void add(const std::string& name, const std::vector<std::int64_t>& shape, int axis, std::vector<Range> ranges);
  void divide_pieces(const Division& division, int data_rank);
  std::vector<float> expected(int array, std::int64_t step) const;
  std::vector<std::vector<float>> memory_;  // by parameter
};

inline TrainingState state_of(std::int64_t step) {
  return {step, step + 1, 0xfedcba9876543210u, 12 * step, {{"mesh", "\"two\"\n"}, {"empty", ""}}};
}

}  // namespace wreath::training::test
