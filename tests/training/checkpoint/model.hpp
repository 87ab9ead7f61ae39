// A small model on meshes divided by hand: what each rank holds, and the value that every element has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training/checkpoint/checkpoint.hpp"

namespace wreath::training::test {

// Data, pipeline and tensor ranks, tensor innermost. With `zero` a rank's pieces are its part of all its elements, cut
// where it falls; without, data ranks hold the same.
struct Division {
  int dp = 1;
  int pp = 1;
  int tp = 1;
  bool zero = false;
  int ranks() const { return dp * pp * tp; }
  std::string name() const;
};

// Of element `index` of array `array` (0: weights) of a parameter, after `step`: exact in float32.
float value_of(const std::string& parameter, int array, std::int64_t index, std::int64_t step);

// What rank `rank` holds. Two moments.
class RankState {
 public:
  RankState(const Division& division, int rank);
  RankState(RankState&&) = delete;

  ParameterList parameters;
  std::vector<Piece> pieces;
  std::vector<float> moments[2];
  Shard shard();
  // Every element gets value_of(), padding zero.
  void fill(std::int64_t step);
  // Every element and padding gets NaN.
  void spoil();
  // What differs from fill(step); empty: nothing, bit for bit.
  std::string difference(std::int64_t step) const;

 private:
  void add(const std::string& name, const std::vector<std::int64_t>& shape, int axis, std::vector<Range> ranges);
  void divide_pieces(const Division& division, int data_rank);
  std::vector<float> expected(int array, std::int64_t step) const;
  std::vector<std::vector<float>> memory_;  // of each parameter
};

inline TrainingState state_of(std::int64_t step) {
  return {step, step + 1, 0xfedcba9876543210u, 12 * step, {{"mesh", "\"two\"\n"}, {"empty", ""}}};
}

}  // namespace wreath::training::test
