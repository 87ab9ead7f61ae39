// The norm of a gradient by sums of integers (docs/decisions/0011).
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "training/compute/compute.hpp"
#include "training/optimizer/optimizer.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/optimizer/gradient_norm.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath::training {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBlock = 4096;

// Bits of the highest magnitude: as integers, magnitudes are in the order of their values, infinity and NaN last.
std::uint32_t highest_bits(const float* values, std::size_t count) {
  const hn::ScalableTag<std::uint32_t> d;
  const auto* bits = reinterpret_cast<const std::uint32_t*>(values);
  const auto magnitude = hn::Set(d, 0x7fffffffu);
  auto highest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    highest = hn::Max(highest, hn::And(hn::LoadU(d, bits + i), magnitude));
  }
  std::uint32_t result = hn::GetLane(hn::MaxOfLanes(d, highest));
  for (; i < count; ++i) result = std::max(result, bits[i] & 0x7fffffffu);
  return result;
}

// One vector of squares, as integers up to 2^40. `scale` makes magnitudes below 2^20.
template <class D>
auto squares(D d, const float* values, double scale) {
  const hn::Rebind<float, D> narrow;
  const auto scaled = hn::Mul(hn::PromoteTo(d, hn::LoadU(narrow, values)), hn::Set(d, scale));
  const auto rounder = hn::Set(d, 0x1.8p52);
  return hn::Sub(hn::Add(hn::Mul(scaled, scaled), rounder), rounder);
}

// The integers of at most kBlock elements: at most 2^52, so float64 holds every sum exactly, in whatever order.
std::int64_t block_sum(const float* values, std::size_t count, double scale) {
  const hn::ScalableTag<double> d;
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) sum = hn::Add(sum, squares(d, values + i, scale));
  const hn::CappedTag<double, 1> one;
  double rest = 0;
  for (; i < count; ++i) rest += hn::GetLane(squares(one, values + i, scale));
  return static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(d, sum)) + rest);
}

__int128 sum_of_squares(const float* values, std::size_t count, double scale) {
  __int128 sum = 0;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    sum += block_sum(values + begin, std::min(kBlock, count - begin), scale);
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace wreath::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath::training {
namespace {

HWY_EXPORT(highest_bits);
HWY_EXPORT(sum_of_squares);

// Whether this rank is the one that counts the parameter's elements, among the ranks that hold them.
bool counts(const Parameter& parameter, bool divided, Mesh& mesh) {
  const MeshPlace& place = mesh.place();
  if (!divided && place.cp != 0) return false;
  if (parameter.sharded_axis < 0 && place.tp != 0) return false;
  return !parameter.tied || place.pp == 0;
}

// The gradients that this rank counts.
std::vector<std::span<const float>> counted(std::span<const Piece> pieces, bool divided, Mesh& mesh) {
  std::vector<std::span<const float>> gradients;
  for (const Piece& piece : pieces) {
    if (counts(*piece.parameter, divided, mesh) && !piece.gradient.empty()) gradients.push_back(piece.gradient);
  }
  return gradients;
}

bool on_device(std::span<const std::span<const float>> gradients) {
  return !gradients.empty() && compute_of(gradients.front()) != nullptr;
}

std::uint32_t highest_bits(std::span<const std::span<const float>> gradients) {
  std::uint32_t highest = 0;
  if (on_device(gradients)) {
    for (const __int128 bits : gradient_sums(gradients, 0))
      highest = std::max(highest, static_cast<std::uint32_t>(bits));
    return highest;
  }
  for (const std::span<const float> values : gradients) {
    highest = std::max(highest, HWY_DYNAMIC_DISPATCH(highest_bits)(values.data(), values.size()));
  }
  return highest;
}

__int128 sum_of_squares(std::span<const std::span<const float>> gradients, double scale) {
  __int128 sum = 0;
  if (on_device(gradients)) {
    for (const __int128 squares : gradient_sums(gradients, scale)) sum += squares;
    return sum;
  }
  for (const std::span<const float> values : gradients) {
    sum += HWY_DYNAMIC_DISPATCH(sum_of_squares)(values.data(), values.size(), scale);
  }
  return sum;
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
#endif  // HWY_ONCE
