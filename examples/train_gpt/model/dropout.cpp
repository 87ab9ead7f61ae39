// This file has dropout by counter-based random numbers.
#include "examples/train_gpt/model/dropout.hpp"

#include <utility>

#include "training/compute/layers.hpp"
#include "training/random/philox.hpp"

namespace wreath::gpt {

namespace {

training::HeldPlaces held_places(const ModelContext& context, const MicroBatch& batch) {
  training::HeldPlaces held;
  std::size_t at = 0;
  for (const training::Range& range : context.shape.places) {
    held.begins[at] = range.begin;
    held.counts[at++] = range.count;
  }
  held.first_row = context.held().begin;
  held.first_sequence = batch.first_sequence;
  held.context = context.config.context;
  return held;
}

}  // namespace

Dropout::Dropout(std::string site, const ModelContext& context) : site_(std::move(site)), context_(&context) {}

void Dropout::apply(const MicroBatch& batch, std::span<float> values) const {
  const float dropped = context_->config.dropout;
  if (dropped <= 0 || !batch.drops) return;
  const training::RandomStream stream(context_->seed, "dropout." + site_, batch.step);
  training::dropout(values, context_->config.width, held_places(*context_, batch), stream, dropped);
}

}  // namespace wreath::gpt
