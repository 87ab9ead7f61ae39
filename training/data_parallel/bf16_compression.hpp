// bf16_compression is a communication hook that halves the bytes of gradients.
#pragma once

#include "training/compute/memory.hpp"
#include "training/parameters/strategy_options.hpp"

namespace wreath::training {

// Returns a hook that sends bfloat16 (rounded to nearest even), half the bytes. Sums are formed in float32 and rounded
// once.
CommunicationHook bf16_compression(MemoryAccounting& memory);

}  // namespace wreath::training
