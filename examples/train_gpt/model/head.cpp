// This file computes scores and loss.
#include "examples/train_gpt/model/head.hpp"

#include <algorithm>

#include "examples/train_gpt/model/embedding.hpp"

namespace wreath::gpt {

namespace {

training::VocabParallelEmbedding make_table(training::ParameterList& parameters, int unit, training::Parameter* table,
                                            const ModelContext& context) {
  if (table != nullptr) return {*table, vocabulary_options(unit, true, context), *context.region};
  return {parameters, vocabulary_options(unit, true, context), *context.region};
}

}  // namespace

Head::Head(training::ParameterList& parameters, int unit, training::Parameter* table, const ModelContext& context)
    : context_(&context),
      unit_(unit),
      norm_(parameters, "ln_f", unit, context),
      table_(make_table(parameters, unit, table, context)) {}

training::Buffer<double> Head::forward(int micro_batch, const MicroBatch& batch, std::span<const float> x,
                                       float gradient_scale, bool keep) {
  Kept kept;
  kept.x = context_->activations(context_->held().count, context_->config.width);
  training::copy(x, kept.x.span());
  kept.normed = context_->activations(context_->held().count, context_->config.width);
  kept.norm = norm_.forward(kept.x.span(), kept.normed.span());
  context_->round(kept.normed.span());
  kept.scores_gradient = context_->activations(context_->rows(), vocabulary_here());
  table_.logits(context_->rows(), kept.normed.span(), kept.scores_gradient.span());
  training::Buffer<double> losses = table_.cross_entropy(kept.scores_gradient.span(), batch.targets, gradient_scale);
  context_->round(kept.scores_gradient.span());
  if (keep) kept_.insert_or_assign(micro_batch, std::move(kept));
  return losses;
}

void Head::scores(std::span<const float> x, std::span<float> scores) {
  const training::Buffer<float> normed = context_->activations(context_->held().count, context_->config.width);
  norm_.forward(x, normed.span());
  context_->round(normed.span());
  const training::Buffer<float> here = context_->activations(context_->rows(), vocabulary_here());
  table_.logits(context_->rows(), normed.span(), here.span());
  training::copy<float>(here.span(), scores);
}

void Head::backward(int micro_batch, std::span<float> gradient) {
  Kept& kept = kept_by("forward", kept_, micro_batch, [](const Kept& k) { return !k.x.empty(); })->second;
  kept.normed_gradient = context_->activations(context_->held().count, context_->config.width);
  table_.logits_backward(context_->rows(), kept.scores_gradient.span(), kept.normed_gradient.span());
  context_->round(kept.normed_gradient.span());
  training::fill(gradient, 0.0f);
  norm_.backward(kept.x.span(), kept.norm, kept.normed_gradient.span(), gradient);
  context_->round(gradient);
}

void Head::backward_weights(int micro_batch) {
  const auto found = kept_by("backward", kept_, micro_batch, [](const Kept& k) { return !k.normed_gradient.empty(); });
  Kept& kept = found->second;
  table_.logits_backward_weights(context_->rows(), kept.normed.span(), kept.scores_gradient.span());
  norm_.backward_weights(kept.x.span(), kept.norm, kept.normed_gradient.span());
  kept_.erase(found);
}

}  // namespace wreath::gpt
