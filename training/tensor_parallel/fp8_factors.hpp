// This file gives the factors of a linear layer's product the values of 8-bit floats, where each tensor has its own
// scale.
#pragma once

#include <array>
#include <span>

#include "training/compute/convert.hpp"
#include "training/compute/memory.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training {

// Returns the highest power of two that keeps a tensor of this highest magnitude within the format. It is 1 where the
// magnitude is zero or not finite.
float scale_for(DataType format, float highest) noexcept;

struct Fp8Tensor {
  std::span<const float> values;
  DataType format;
};

// Two tensors with the values that their formats hold at the present scale ("current scaling": no history). The highest
// magnitudes are those of all tensor ranks, so that a divided tensor has the scale of the whole. That takes one
// all_reduce of 8 bytes. Where the region does not ask for it (TensorRegion::fp8) the tensors stay as they are. The
// tensors outlive it; copies are MemoryTag::Workspace.
class Fp8Factors {
 public:
  Fp8Factors(const TensorRegion& region, const Fp8Tensor& left, const Fp8Tensor& right);
  std::span<const float> left() const noexcept { return values_[0]; }
  std::span<const float> right() const noexcept { return values_[1]; }

 private:
  std::array<Buffer<float>, 2> rounded_;
  std::array<std::span<const float>, 2> values_;
};

}  // namespace wreath::training
