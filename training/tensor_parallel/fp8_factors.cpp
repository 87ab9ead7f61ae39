// This file computes scales that ranks agree on.
#include "training/tensor_parallel/fp8_factors.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "training/compute/magnitudes.hpp"

namespace wreath::training {

float scale_for(DataType format, float highest) noexcept {
  if (!std::isfinite(highest) || highest == 0) return 1;
  // With this least value neither the scale nor its reciprocal leaves float32.
  constexpr float kLeast = 0x1p-100f;
  return std::ldexp(1.0f, std::ilogb(largest(format) / std::max(highest, kLeast)));
}

Fp8Factors::Fp8Factors(const TensorRegion& region, const Fp8Tensor& left, const Fp8Tensor& right)
    : values_{left.values, right.values} {
  if (!region.fp8()) return;
  // Bits of magnitudes compare as integers in the order of their values, with NaN last.
  std::array<std::uint32_t, 2> highest{};
  for (std::size_t i = 0; i < 2; ++i) highest[i] = std::bit_cast<std::uint32_t>(highest_magnitude(values_[i]));
  region.group().all_reduce(std::span<std::uint32_t>(highest), ReduceOp::Max);
  const std::array<DataType, 2> formats{left.format, right.format};
  for (std::size_t i = 0; i < 2; ++i) {
    rounded_[i] = Buffer<float>(region.memory(), MemoryTag::Workspace, values_[i].size(), Contents::Undefined);
    round_to(formats[i], values_[i], rounded_[i].span(), scale_for(formats[i], std::bit_cast<float>(highest[i])));
    values_[i] = rounded_[i].span();
  }
}

}  // namespace wreath::training
