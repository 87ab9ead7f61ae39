// Dropout whose mask depends on the seed, the site, the step and the element's place in the global batch alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "examples/train_gpt/model/context.hpp"

namespace wreath::gpt {

class Dropout {
 public:
  // `site` names where in the model: "h.0.attn".
  Dropout(std::string site, const ModelContext& context);
  // values [held rows][width], in place: zero or divided by (1 - dropout). The backward pass is the same on gradients.
  void apply(const MicroBatch& batch, std::span<float> values) const;

 private:
  std::string site_;
  const ModelContext* context_;
};

}  // namespace wreath::gpt
