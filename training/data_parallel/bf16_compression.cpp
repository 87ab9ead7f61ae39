// This file reduces gradients as bfloat16.
#include "training/data_parallel/bf16_compression.hpp"

#include <memory>

#include "training/parameters/half_reduction.hpp"

namespace wreath::training {

CommunicationHook bf16_compression(MemoryAccounting& memory) {
  return [&memory](std::span<float> bucket, Group& group, const Reduction& reduction) -> std::function<void()> {
    auto moving = std::make_shared<HalfReduction>(bucket, HalfTravel{DataType::BFloat16, group, reduction, {}}, memory);
    return [moving] { moving->finish(); };
  };
}

}  // namespace wreath::training
