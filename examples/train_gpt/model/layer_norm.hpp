// This file declares layer norm with its weights and the values that its backward pass needs.
#pragma once

#include <span>
#include <string>

#include "examples/train_gpt/model/context.hpp"

namespace wreath::gpt {

class LayerNorm {
 public:
  // The saved values of one micro-batch.
  struct Saved {
    training::Buffer<float> mean;
    training::Buffer<float> reciprocal_deviation;
  };
  LayerNorm(training::ParameterList& parameters, const std::string& name, int unit, const ModelContext& context);
  // Computes y from x; both are [held rows][width].
  Saved forward(std::span<const float> x, std::span<float> y) const;
  // Adds to x_gradient.
  void backward(std::span<const float> x, const Saved& saved, std::span<const float> y_gradient,
                std::span<float> x_gradient) const;
  void backward_weights(std::span<const float> x, const Saved& saved, std::span<const float> y_gradient);

 private:
  const ModelContext* context_;
  training::Parameter* weight_;
  training::Parameter* bias_ = nullptr;
};

}  // namespace wreath::gpt
