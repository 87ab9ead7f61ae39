// This file runs a transformer block, forward and backward.
#include "examples/train_gpt/model/block.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace wreath::gpt {

using training::LinearOptions;
using training::Range;

namespace {

std::string name_of(int index, const char* part) { return "h." + std::to_string(index) + "." + part; }

Range heads_here(const ModelContext& context) {
  return training::part_of(context.config.heads, context.region->group().ranks(), context.region->group().rank());
}

// Returns the columns of Q, K and V that belong to this rank's heads.
std::vector<Range> columns_of_heads(const ModelContext& context) {
  const Range heads = heads_here(context);
  const std::int64_t size = context.config.head_size();
  std::vector<Range> ranges;
  for (std::int64_t part = 0; part < 3; ++part) {
    ranges.push_back({part * context.config.width + heads.begin * size, heads.count * size});
  }
  return ranges;
}

struct Linear {
  const char* part;
  std::int64_t inputs;
  std::int64_t outputs;
  bool to_residual = false;
};

// Returns the options of a linear layer. Weights that add to the residual start smaller: there are two of them a layer
// (GPT-2).
LinearOptions linear(int index, int unit, const ModelContext& context, const Linear& of, std::vector<Range> ranges) {
  LinearOptions options;
  options.name = name_of(index, of.part);
  options.inputs = of.inputs;
  options.outputs = of.outputs;
  options.ranges = std::move(ranges);
  options.bias = context.config.bias;
  options.initial_deviation = 0.02f;
  if (of.to_residual) options.initial_deviation /= std::sqrt(2.0f * static_cast<float>(context.config.layers));
  options.unit = unit;
  return options;
}

std::vector<Range> inputs_of_heads(const ModelContext& context) {
  const Range heads = heads_here(context);
  return {{heads.begin * context.config.head_size(), heads.count * context.config.head_size()}};
}

training::Buffer<float> copy_of(const ModelContext& context, std::span<const float> values) {
  training::Buffer<float> copy = context.activations(static_cast<std::int64_t>(values.size()), 1);
  training::copy(values, copy.span());
  return copy;
}

}  // namespace

Block::Block(training::ParameterList& parameters, int index, int unit, const ModelContext& context)
    : context_(&context),
      index_(index),
      unit_(unit),
      norm_1_(parameters, name_of(index, "ln_1"), unit, context),
      qkv_(parameters,
           linear(index, unit, context, {"attn.c_attn", context.config.width, 3 * context.config.width},
                  columns_of_heads(context)),
           *context.region),
      attention_output_(parameters,
                        linear(index, unit, context, {"attn.c_proj", context.config.width, context.config.width, true},
                               inputs_of_heads(context)),
                        *context.region),
      norm_2_(parameters, name_of(index, "ln_2"), unit, context),
      hidden_(parameters,
              linear(index, unit, context, {"mlp.c_fc", context.config.width, 4 * context.config.width}, {}),
              *context.region),
      mlp_output_(
          parameters,
          linear(index, unit, context, {"mlp.c_proj", 4 * context.config.width, context.config.width, true}, {}),
          *context.region),
      attention_dropout_(name_of(index, "attn"), context),
      mlp_dropout_(name_of(index, "mlp"), context) {}

training::RandomStream Block::probability_stream(const MicroBatch& batch) const {
  return {context_->seed, "dropout." + name_of(index_, "attn.probabilities"), batch.step};
}

training::AttentionBatch Block::attention_batch(const MicroBatch& batch,
                                                const training::RandomStream& dropout) const noexcept {
  const GptConfig& config = context_->config;
  const Range heads = heads_here(*context_);
  training::AttentionShape shape{heads.count, config.head_size()};
  shape.dropout = {
      batch.drops ? config.dropout : 0.0f, &dropout, config.heads, heads.begin, config.context, batch.first_sequence};
  return {shape, context_->shape.sequences, config.context};
}

void Block::forward(int micro_batch, const MicroBatch& batch, std::span<const float> x, std::span<float> y, bool keep) {
  Kept kept = run(batch, copy_of(*context_, x), y);
  if (!keep) return;
  if (context_->recompute) {
    Kept input;
    input.x = std::move(kept.x);
    kept = std::move(input);
  }
  kept_.insert_or_assign(micro_batch, std::move(kept));
}

Block::Kept Block::run(const MicroBatch& batch, Buffer x, std::span<float> y) {
  Kept kept;
  kept.x = std::move(x);
  run_attention(batch, kept);
  run_mlp(batch, kept, y);
  return kept;
}

void Block::run_attention(const MicroBatch& batch, Kept& kept) {
  const std::int64_t held = context_->held().count;
  kept.normed_1 = context_->activations(held, context_->config.width);
  kept.norm_1 = norm_1_.forward(kept.x.span(), kept.normed_1.span());
  context_->round(kept.normed_1.span());
  kept.qkv = context_->activations(rows(), qkv_.outputs_here());
  qkv_.forward(rows(), kept.normed_1.span(), kept.qkv.span());
  context_->round(kept.qkv.span());
  kept.attended = context_->activations(rows(), attention_output_.inputs_here());
  kept.log_sum_exp = context_->activations(rows(), heads_here(*context_).count);
  const training::RandomStream dropout = probability_stream(batch);
  context_->attention->forward(attention_batch(batch, dropout), kept.qkv.span(), kept.attended.span(),
                               kept.log_sum_exp.span());
  context_->round(kept.attended.span());
  kept.middle = context_->activations(held, context_->config.width);
  attention_output_.forward(rows(), kept.attended.span(), kept.middle.span());
  context_->round(kept.middle.span());
  attention_dropout_.apply(batch, kept.middle.span());
  training::add(kept.middle.span(), kept.x.span());
  context_->round(kept.middle.span());
}

void Block::run_mlp(const MicroBatch& batch, Kept& kept, std::span<float> y) {
  const std::int64_t held = context_->held().count;
  kept.normed_2 = context_->activations(held, context_->config.width);
  kept.norm_2 = norm_2_.forward(kept.middle.span(), kept.normed_2.span());
  context_->round(kept.normed_2.span());
  kept.hidden = context_->activations(rows(), hidden_.outputs_here());
  hidden_.forward(rows(), kept.normed_2.span(), kept.hidden.span());
  context_->round(kept.hidden.span());
  kept.activated = context_->activations(rows(), hidden_.outputs_here());
  training::gelu_forward(context_->config.gelu, kept.hidden.span(), kept.activated.span());
  context_->round(kept.activated.span());
  mlp_output_.forward(rows(), kept.activated.span(), y);
  context_->round(y);
  mlp_dropout_.apply(batch, y);
  training::add(y, kept.middle.span());
  context_->round(y);
}

void Block::backward(int micro_batch, const MicroBatch& batch, std::span<float> gradient) {
  Kept& kept = kept_by("forward", kept_, micro_batch, [](const Kept& k) { return !k.x.empty(); })->second;
  if (context_->recompute) {
    const Buffer unused = context_->activations(context_->held().count, context_->config.width);
    kept = run(batch, std::move(kept.x), unused.span());
  }
  backward_mlp(batch, kept, gradient);
  backward_attention(batch, kept, gradient);
}

void Block::backward_mlp(const MicroBatch& batch, Kept& kept, std::span<float> gradient) {
  kept.output_gradient = copy_of(*context_, gradient);
  mlp_dropout_.apply(batch, kept.output_gradient.span());
  context_->round(kept.output_gradient.span());
  kept.hidden_gradient = context_->activations(rows(), hidden_.outputs_here());
  mlp_output_.backward(rows(), kept.output_gradient.span(), kept.hidden_gradient.span());
  context_->round(kept.hidden_gradient.span());
  training::gelu_backward(context_->config.gelu, kept.hidden.span(), kept.hidden_gradient.span(),
                          kept.hidden_gradient.span());
  context_->round(kept.hidden_gradient.span());
  kept.normed_2_gradient = context_->activations(context_->held().count, context_->config.width);
  hidden_.backward(rows(), kept.hidden_gradient.span(), kept.normed_2_gradient.span());
  context_->round(kept.normed_2_gradient.span());
  norm_2_.backward(kept.middle.span(), kept.norm_2, kept.normed_2_gradient.span(), gradient);
  context_->round(gradient);
}

void Block::backward_attention(const MicroBatch& batch, Kept& kept, std::span<float> gradient) {
  kept.middle_gradient = copy_of(*context_, gradient);
  attention_dropout_.apply(batch, kept.middle_gradient.span());
  context_->round(kept.middle_gradient.span());
  const Buffer attended_gradient = context_->activations(rows(), attention_output_.inputs_here());
  attention_output_.backward(rows(), kept.middle_gradient.span(), attended_gradient.span());
  context_->round(attended_gradient.span());
  kept.qkv_gradient = context_->activations(rows(), qkv_.outputs_here());
  const training::RandomStream dropout = probability_stream(batch);
  context_->attention->backward(attention_batch(batch, dropout),
                                {kept.qkv.span(), kept.attended.span(), kept.log_sum_exp.span()},
                                attended_gradient.span(), kept.qkv_gradient.span());
  context_->round(kept.qkv_gradient.span());
  kept.normed_1_gradient = context_->activations(context_->held().count, context_->config.width);
  qkv_.backward(rows(), kept.qkv_gradient.span(), kept.normed_1_gradient.span());
  context_->round(kept.normed_1_gradient.span());
  norm_1_.backward(kept.x.span(), kept.norm_1, kept.normed_1_gradient.span(), gradient);
  context_->round(gradient);
}

void Block::backward_weights(int micro_batch) {
  const auto found = kept_by("backward", kept_, micro_batch, [](const Kept& k) { return !k.qkv_gradient.empty(); });
  Kept& kept = found->second;
  mlp_output_.backward_weights(rows(), kept.activated.span(), kept.output_gradient.span());
  hidden_.backward_weights(rows(), kept.normed_2.span(), kept.hidden_gradient.span());
  norm_2_.backward_weights(kept.middle.span(), kept.norm_2, kept.normed_2_gradient.span());
  attention_output_.backward_weights(rows(), kept.attended.span(), kept.middle_gradient.span());
  qkv_.backward_weights(rows(), kept.normed_1.span(), kept.qkv_gradient.span());
  norm_1_.backward_weights(kept.x.span(), kept.norm_1, kept.normed_1_gradient.span());
  kept_.erase(found);
}

}  // namespace wreath::gpt
