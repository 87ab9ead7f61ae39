// This file has the embeddings of tokens and places.
#include "examples/train_gpt/model/embedding.hpp"

#include <algorithm>

namespace wreath::gpt {

training::VocabularyOptions vocabulary_options(int unit, bool tied, const ModelContext& context) {
  training::VocabularyOptions options;
  options.name = "wte";
  options.vocabulary = context.config.vocabulary;
  options.width = context.config.width;
  options.initial_deviation = 0.02f;
  options.tied = tied;
  options.unit = unit;
  return options;
}

namespace {

training::Parameter place_table(int unit, const ModelContext& context) {
  training::Parameter parameter;
  parameter.name = "wpe.weight";
  parameter.shape = {context.config.context, context.config.width};
  parameter.initial_deviation = 0.02f;
  parameter.decays = true;
  parameter.gradient_is_partial = context.region->sequence_parallel();
  parameter.unit = unit;
  return parameter;
}

// Returns the places in their sequences of the rows that this rank holds.
std::vector<std::int32_t> held_places(const ModelContext& context) {
  std::vector<std::int32_t> of_sequence;
  for (const training::Range& range : context.shape.places) {
    for (std::int64_t i = 0; i < range.count; ++i) of_sequence.push_back(static_cast<std::int32_t>(range.begin + i));
  }
  const training::Range held = context.held();
  std::vector<std::int32_t> places;
  for (std::int64_t row = held.begin; row < held.begin + held.count; ++row) {
    places.push_back(of_sequence[static_cast<std::size_t>(row) % of_sequence.size()]);
  }
  return places;
}

}  // namespace

Embedding::Embedding(training::ParameterList& parameters, int unit, bool tied, const ModelContext& context)
    : context_(&context),
      unit_(unit),
      tokens_(parameters, vocabulary_options(unit, tied, context), *context.region),
      places_(&parameters.add(place_table(unit, context))),
      dropout_("embedding", context) {}

void Embedding::forward(const MicroBatch& batch, std::span<float> y) const {
  tokens_.forward(batch.tokens, y);
  const training::Buffer<float> places = context_->activations(context_->held().count, context_->config.width);
  training::embedding_forward(held_places(*context_), places_->value_here(), 0, context_->config.width, places.span());
  training::add(y, places.span());
  dropout_.apply(batch, y);
  context_->round(y);
}

void Embedding::backward(int micro_batch, const MicroBatch& batch, std::span<float> gradient) {
  dropout_.apply(batch, gradient);
  training::Buffer<float> kept = context_->activations(context_->held().count, context_->config.width);
  training::copy<float>(gradient, kept.span());
  gradients_.insert_or_assign(micro_batch, std::move(kept));
}

void Embedding::backward_weights(int micro_batch, const MicroBatch& batch) {
  const auto found =
      kept_by("backward", gradients_, micro_batch, [](const auto& gradient) { return !gradient.empty(); });
  tokens_.backward_weights(batch.tokens, found->second.span());
  training::embedding_backward(held_places(*context_), found->second.span(), 0, context_->config.width,
                               places_->gradient_here());
  gradients_.erase(found);
}

}  // namespace wreath::gpt
