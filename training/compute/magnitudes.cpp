// This file computes magnitudes and squares, and is compiled once per instruction set (Highway).
#include "training/compute/magnitudes.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "training/compute/compute.hpp"
#include "training/compute/kernels/kernels.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/compute/magnitudes.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath::training {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBlock = 4096;

// Returns the highest bits of a magnitude. Bits of magnitudes compare as integers in the order of the values, with NaN
// last.
std::int32_t highest_bits(const float* values, std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> s;
  auto highest = hn::Zero(s);
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    highest = hn::Max(highest, hn::BitCast(s, hn::Abs(hn::LoadU(d, values + i))));
  }
  std::int32_t result = hn::GetLane(hn::MaxOfLanes(s, highest));
  for (; i < count; ++i) result = std::max(result, std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff);
  return result;
}

// Returns one vector of squares, as integers up to 2^40. `scale` makes magnitudes below 2^20.
template <class D>
auto squares(D d, const float* values, double scale) {
  const hn::Rebind<float, D> narrow;
  const auto scaled = hn::Mul(hn::PromoteTo(d, hn::LoadU(narrow, values)), hn::Set(d, scale));
  const auto rounder = hn::Set(d, 0x1.8p52);
  return hn::Sub(hn::Add(hn::Mul(scaled, scaled), rounder), rounder);
}

// Returns the sum of the integers of at most kBlock elements. It is at most 2^52, so float64 holds every partial sum
// exactly, in any order.
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

// Returns one number for each of `gradients`, which all lie in memory of one Compute. Without a scale it is the bits of
// the highest magnitude. With one it is the sum of the squares of scale * value, each rounded to an integer. Waits for
// the device.
std::vector<__int128> sums_on_device(Compute& on, std::span<const std::span<const float>> gradients, double scale) {
  std::vector<__int128> sums(gradients.size());
  constexpr std::uint64_t kElements = 16'384;  // of a block
  std::vector<std::uint32_t> blocks;
  std::size_t all = 0;
  for (const std::span<const float> values : gradients) {
    blocks.push_back(values.empty() ? 0 : on.blocks_for(values.size() / kElements + 1));
    if (values.size() > blocks.back() * kMostOfBlock) {
      throw Exception({ErrorCode::InvalidArgument, "a gradient of " + std::to_string(values.size()) +
                                                       " elements is too large for a sum of squares on a device"});
    }
    all += blocks.back();
  }
  if (all == 0) return sums;
  std::vector<std::int64_t> results(all);
  const OnCompute<std::int64_t> there(on, results);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (blocks[i] == 0) continue;
    const GradientSumRun run{on.at(gradients[i]), gradients[i].size(), there.at() + begin, scale};
    on.launch(run, blocks[i]);
    begin += blocks[i];
  }
  on.copy(results.data(), there.data(), results.size() * sizeof(std::int64_t));
  begin = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    for (std::uint32_t block = 0; block < blocks[i]; ++block, ++begin) {
      sums[i] = scale == 0 ? std::max<__int128>(sums[i], results[begin]) : sums[i] + results[begin];
    }
  }
  return sums;
}

// Returns the Compute that one of the spans lies in, or null where all lie in host memory.
Compute* compute_of_any(std::span<const std::span<const float>> several) {
  for (const std::span<const float> values : several) {
    if (Compute* const on = compute_of(values)) return on;
  }
  return nullptr;
}

}  // namespace

float highest_magnitude(std::span<const float> values) { return highest_magnitudes({&values, 1}).front(); }

std::vector<float> highest_magnitudes(std::span<const std::span<const float>> several) {
  std::vector<float> highest;
  if (Compute* const on = compute_of_any(several)) {
    for (const __int128 bits : sums_on_device(*on, several, 0)) {
      highest.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    }
    return highest;
  }
  for (const std::span<const float> values : several) {
    highest.push_back(std::bit_cast<float>(HWY_DYNAMIC_DISPATCH(highest_bits)(values.data(), values.size())));
  }
  return highest;
}

__int128 sum_of_squares(std::span<const std::span<const float>> several, double scale) {
  __int128 sum = 0;
  if (Compute* const on = compute_of_any(several)) {
    for (const __int128 squares : sums_on_device(*on, several, scale)) sum += squares;
    return sum;
  }
  for (const std::span<const float> values : several) {
    sum += HWY_DYNAMIC_DISPATCH(sum_of_squares)(values.data(), values.size(), scale);
  }
  return sum;
}

}  // namespace wreath::training
#endif  // HWY_ONCE
