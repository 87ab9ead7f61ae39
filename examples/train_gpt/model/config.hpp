// This file declares the shape of a GPT.
#pragma once

#include <cstdint>

#include "training/compute/layers.hpp"

namespace wreath::gpt {

// The shape is nanoGPT's by default: no biases, exact GELU, and the embedding's table as the output layer. HF's GPT-2
// has biases and the tanh form.
struct GptConfig {
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;   // a multiple of heads
  std::int64_t context = 64;  // tokens of a sequence
  std::int64_t vocabulary = 65;
  bool bias = false;
  training::Gelu gelu = training::Gelu::Exact;
  // The share for the embedding, attention's probabilities and each residual branch.
  float dropout = 0;

  std::int64_t head_size() const noexcept { return width / heads; }
};

}  // namespace wreath::gpt
