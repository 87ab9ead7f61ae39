// The shape of a GPT.
#pragma once

#include <cstdint>

#include "training/compute/layers.hpp"

namespace wreath::gpt {

// nanoGPT's by default: no biases, exact GELU, the output layer is the embedding's table. HF's GPT-2 has biases and the
// tanh form.
struct GptConfig {
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;   // a multiple of heads
  std::int64_t context = 64;  // tokens of a sequence
  std::int64_t vocabulary = 65;
  bool bias = false;
  training::Gelu gelu = training::Gelu::Exact;
  float dropout = 0;  // of the embedding, of attention's probabilities and of each residual branch

  std::int64_t head_size() const noexcept { return width / heads; }
};

}  // namespace wreath::gpt
