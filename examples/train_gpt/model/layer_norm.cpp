// This file has layer norm over the rows that this rank holds.
#include "examples/train_gpt/model/layer_norm.hpp"

#include "training/compute/layers.hpp"

namespace wreath::gpt {

using training::Parameter;

namespace {

Parameter vector_parameter(const std::string& name, int unit, const ModelContext& context) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = {context.config.width};
  parameter.unit = unit;
  parameter.gradient_is_partial = context.region->sequence_parallel();  // of the held rows
  return parameter;
}

training::LayerNormSaved spans(const LayerNorm::Saved& saved) {
  return {saved.mean.span(), saved.reciprocal_deviation.span()};
}

}  // namespace

LayerNorm::LayerNorm(training::ParameterList& parameters, const std::string& name, int unit,
                     const ModelContext& context)
    : context_(&context) {
  Parameter weight = vector_parameter(name + ".weight", unit, context);
  weight.initial_mean = 1;
  weight_ = &parameters.add(weight);
  if (context.config.bias) bias_ = &parameters.add(vector_parameter(name + ".bias", unit, context));
}

LayerNorm::Saved LayerNorm::forward(std::span<const float> x, std::span<float> y) const {
  const std::int64_t rows = context_->held().count;
  Saved saved{context_->activations(rows, 1), context_->activations(rows, 1)};
  training::layer_norm_forward(x, weight_->value_here(), bias_ != nullptr ? bias_->value_here() : std::span<float>(), y,
                               spans(saved));
  return saved;
}

void LayerNorm::backward(std::span<const float> x, const Saved& saved, std::span<const float> y_gradient,
                         std::span<float> x_gradient) const {
  training::layer_norm_backward(x, weight_->value_here(), spans(saved), y_gradient, x_gradient);
}

void LayerNorm::backward_weights(std::span<const float> x, const Saved& saved, std::span<const float> y_gradient) {
  training::layer_norm_backward_weights(x, spans(saved), y_gradient, weight_->gradient_here(),
                                        bias_ != nullptr ? bias_->gradient_here() : std::span<float>());
}

}  // namespace wreath::gpt
