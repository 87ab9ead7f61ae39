// The factors of a linear layer's product as 8-bit floats, each tensor with a scale of its own, by their values.
#pragma once

#include <array>
#include <span>

#include "training/compute/convert.hpp"
#include "training/compute/memory.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training {

// The highest power of two that keeps a tensor of this highest magnitude within the format; 1 of zeros and of what is
// not finite.
float scale_for(DataType format, float highest) noexcept;

struct Fp8Tensor {
  std::span<const float> values;
  DataType format;
};

// Two tensors with the values that their formats hold at the scale of now ("current scaling": no history). The highest
// magnitudes are those of all tensor ranks, so that a tensor that is divided has the scale of the whole: one all_reduce
// of 8 bytes. Where the region does not ask for it (TensorRegion::fp8) the tensors as they are. Lives as long as the
// tensors; copies are MemoryTag::Workspace.
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
