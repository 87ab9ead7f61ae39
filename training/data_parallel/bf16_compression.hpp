// bf16_compression: a communication hook that halves the bytes of gradients.
#pragma once

#include "training/compute/memory.hpp"
#include "training/parameters/strategy_options.hpp"

namespace wreath::training {

// Sends bfloat16 (rounded to nearest even): half the bytes. Sums are formed in float32 and rounded once.
CommunicationHook bf16_compression(MemoryAccounting& memory);

}  // namespace wreath::training
