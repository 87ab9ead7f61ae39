// This file declares the memory that training will need, before it allocates any.
#pragma once

#include <cstdint>

#include "examples/train_gpt/train/options.hpp"

namespace wreath::gpt {

// The bytes of one rank. Both are less than a step really takes: scratch and messages are left out.
struct MemoryNeed {
  // The bytes of weights, gradients and moments, by the formulas of ZeRO.
  std::uint64_t model_state = 0;
  std::uint64_t activations = 0;  // kept from forward to backward passes
  std::uint64_t all() const noexcept { return model_state + activations; }
};

// Returns the need of the rank at `place`. The options have been checked.
MemoryNeed memory_need(const TrainOptions& options, const training::MeshPlace& place);

}  // namespace wreath::gpt
