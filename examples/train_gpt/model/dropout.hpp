// This file declares dropout. Its mask depends on the seed, the site, the step and the element's place in the global
// batch alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "examples/train_gpt/model/context.hpp"

namespace wreath::gpt {

class Dropout {
 public:
  // `site` names the place in the model: "h.0.attn".
  Dropout(std::string site, const ModelContext& context);
  // Drops values [held rows][width] in place: each becomes zero or is divided by (1 - dropout). The backward pass does
  // the same to gradients.
  void apply(const MicroBatch& batch, std::span<float> values) const;

 private:
  std::string site_;
  const ModelContext* context_;
};

}  // namespace wreath::gpt
