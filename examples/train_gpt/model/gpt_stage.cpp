// This file runs a part of a GPT: its units in order, each between the calls that gather and free its weights.
#include "examples/train_gpt/model/gpt_stage.hpp"

#include <algorithm>

namespace wreath::gpt {

using training::Buffer;

GptStage::GptStage(training::ParameterList& parameters, const StagePlace& place, training::Parameter* embedding_table,
                   const ModelContext& context, StepState& state)
    : context_(&context), state_(&state) {
  int unit = parameters.units();
  if (place.first()) {
    embedding_ = std::make_unique<Embedding>(parameters, unit++, !place.alone, context);
  }
  const training::Range layers = place.layers(context.config.layers);
  for (std::int64_t layer = layers.begin; layer < layers.begin + layers.count; ++layer) {
    blocks_.push_back(std::make_unique<Block>(parameters, static_cast<int>(layer), unit++, context));
  }
  if (place.last()) {
    training::Parameter* table = embedding_ ? &embedding_->table() : embedding_table;
    head_ = std::make_unique<Head>(parameters, unit++, table, context);
  }
}

training::DataParallel& GptStage::strategy() const {
  if (strategy_ != nullptr) return *strategy_;
  throw Exception({ErrorCode::InvalidUsage, "a stage of a GPT: attach was left out"});
}

Buffer<float> GptStage::run_blocks(int micro_batch, const MicroBatch& batch, std::span<const float> input) {
  Buffer<float> x = context_->activations(context_->held().count, context_->config.width);
  if (embedding_) {
    strategy().before_forward(embedding_->unit());
    embedding_->forward(batch, x.span());
    strategy().after_forward(embedding_->unit());
  } else {
    training::copy(input, x.span());
  }
  Buffer<float> y = context_->activations(context_->held().count, context_->config.width);
  for (const auto& block : blocks_) {
    strategy().before_forward(block->unit());
    block->forward(micro_batch, batch, x.span(), y.span(), state_->training);
    strategy().after_forward(block->unit());
    std::swap(x, y);
  }
  return x;
}

void GptStage::forward(int micro_batch, std::span<const float> input, std::span<float> output) {
  const Buffer<float> x = run_blocks(micro_batch, batch(micro_batch), input);
  if (!head_) {
    training::copy<float>(x.span(), output);
    return;
  }
  strategy().before_forward(head_->unit());
  if (state_->scores.empty()) {
    state_->losses[static_cast<std::size_t>(micro_batch)] =
        head_->forward(micro_batch, batch(micro_batch), x.span(), state_->gradient_scale, state_->training);
  } else {
    head_->scores(x.span(), state_->scores);
  }
  strategy().after_forward(head_->unit());
}

template <typename Weights>
void GptStage::add_weights(int unit, const Weights& weights) {
  weights();
  strategy().gradients_ready(unit);
}

template <typename Backward, typename Weights>
void GptStage::back_through(int unit, bool weights, const Backward& backward, const Weights& weights_of) {
  strategy().before_backward(unit);
  backward();
  strategy().after_backward(unit);
  if (weights) add_weights(unit, weights_of);
}

void GptStage::walk_back(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient,
                         bool weights) {
  Buffer<float> gradient = context_->activations(context_->held().count, context_->config.width);
  training::copy(output_gradient, gradient.span().first(output_gradient.size()));
  if (head_) {
    back_through(
        head_->unit(), weights, [&] { head_->backward(micro_batch, gradient.span()); },
        [&] { head_->backward_weights(micro_batch); });
  }
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    back_through((*block)->unit(), weights,
                 [&] { (*block)->backward(micro_batch, batch(micro_batch), gradient.span()); },
                 [&] { (*block)->backward_weights(micro_batch); });
  }
  if (embedding_) {
    back_through(
        embedding_->unit(), weights, [&] { embedding_->backward(micro_batch, batch(micro_batch), gradient.span()); },
        [&] { embedding_->backward_weights(micro_batch, batch(micro_batch)); });
  } else {
    training::copy<float>(gradient.span(), input_gradient);
  }
}

void GptStage::backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) {
  walk_back(micro_batch, output_gradient, input_gradient, false);
}

void GptStage::backward_whole(int micro_batch, std::span<const float> output_gradient,
                              std::span<float> input_gradient) {
  walk_back(micro_batch, output_gradient, input_gradient, true);
}

void GptStage::backward_weights(int micro_batch) {
  if (head_) add_weights(head_->unit(), [&] { head_->backward_weights(micro_batch); });
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    add_weights((*block)->unit(), [&] { (*block)->backward_weights(micro_batch); });
  }
  if (embedding_) {
    add_weights(embedding_->unit(), [&] { embedding_->backward_weights(micro_batch, batch(micro_batch)); });
  }
}

}  // namespace wreath::gpt
