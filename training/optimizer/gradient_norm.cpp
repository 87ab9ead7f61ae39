// This file computes the norm of a gradient by sums of integers (docs/decisions/0011).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "training/compute/magnitudes.hpp"
#include "training/optimizer/optimizer.hpp"

namespace wreath::training {

namespace {

// Returns whether this rank counts the parameter's elements, among the ranks that hold them.
bool counts(const Parameter& parameter, bool divided, Mesh& mesh) {
  const MeshPlace& place = mesh.place();
  if (!divided && place.cp != 0) return false;
  if (parameter.sharded_axis < 0 && place.tp != 0) return false;
  return !parameter.tied || place.pp == 0;
}

// Returns the gradients that this rank counts.
std::vector<std::span<const float>> counted(std::span<const Piece> pieces, bool divided, Mesh& mesh) {
  std::vector<std::span<const float>> gradients;
  for (const Piece& piece : pieces) {
    if (counts(*piece.parameter, divided, mesh) && !piece.gradient.empty()) gradients.push_back(piece.gradient);
  }
  return gradients;
}

// Returns the bits of the highest magnitude. Bits of magnitudes compare as integers in the order of the values, with
// infinity and NaN last.
std::uint32_t highest_bits(std::span<const std::span<const float>> gradients) {
  std::uint32_t highest = 0;
  for (const float magnitude : highest_magnitudes(gradients)) {
    highest = std::max(highest, std::bit_cast<std::uint32_t>(magnitude));
  }
  return highest;
}

}  // namespace

double gradient_norm(std::span<const Piece> pieces, bool divided, Mesh& mesh) {
  // Where pieces are not divided, every copy of the model has all of them, and its ranks are enough.
  Group& group = divided ? mesh.world() : mesh.model();
  const std::vector<std::span<const float>> gradients = counted(pieces, divided, mesh);
  std::array<std::uint32_t, 1> bits{highest_bits(gradients)};
  group.all_reduce(std::span<std::uint32_t>(bits), ReduceOp::Max);
  const auto highest = std::bit_cast<float>(bits[0]);
  if (highest == 0 || !std::isfinite(highest)) return static_cast<double>(highest);
  const int exponent = std::ilogb(highest);  // highest < 2^(exponent + 1)
  const __int128 sum = sum_of_squares(gradients, std::ldexp(1.0, 19 - exponent));
  std::array<std::int64_t, 2> halves{static_cast<std::int64_t>(sum & 0xffffffff), static_cast<std::int64_t>(sum >> 32)};
  group.all_reduce(std::span<std::int64_t>(halves));
  const __int128 total = (static_cast<__int128>(halves[1]) << 32) + halves[0];
  return std::ldexp(std::sqrt(static_cast<double>(total)), exponent - 19);
}

}  // namespace wreath::training
