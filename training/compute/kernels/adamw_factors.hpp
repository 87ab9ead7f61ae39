// This file declares the numbers that AdamW's loops take, the same for every instruction set.
#pragma once

#include <cstddef>

namespace wreath::training {

// The numbers of one step. 1 - beta and the bias corrections are formed in float64 and rounded once, as PyTorch does.
struct AdamWFactors {
  float gradient = 1;
  float beta1 = 0;
  float one_less_beta1 = 0;
  float beta2 = 0;
  float one_less_beta2 = 0;
  float epsilon = 0;
  float decay = 1;                   // 1 - learning rate x weight decay
  float second_correction_root = 1;  // sqrt(1 - beta2 ^ t)
  float step_size = 0;               // learning rate / (1 - beta1 ^ t)
};

struct AdamWRows {
  float* value = nullptr;
  const float* gradient = nullptr;
  float* first = nullptr;  // moments
  float* second = nullptr;
  std::size_t count = 0;
};

}  // namespace wreath::training
