// What training takes of memory, before it takes any.
#pragma once

#include <cstdint>

#include "examples/train_gpt/train/options.hpp"

namespace wreath::gpt {

// Bytes of one rank. Both are less than what a step comes to: scratch and what travels are left out.
struct MemoryNeed {
  std::uint64_t model_state = 0;  // weights, gradients, moments: by the formulas of ZeRO
  std::uint64_t activations = 0;  // kept from forward to backward passes
  std::uint64_t all() const noexcept { return model_state + activations; }
};

// Of the rank at `place`. The options have been checked.
MemoryNeed memory_need(const TrainOptions& options, const training::MeshPlace& place);

}  // namespace wreath::gpt
