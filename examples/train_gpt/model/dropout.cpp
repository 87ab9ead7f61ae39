// Dropout by counter-based random numbers.
#include "examples/train_gpt/model/dropout.hpp"

#include <utility>

#include "training/kernels/kernels.hpp"
#include "training/random/philox.hpp"

namespace wreath::gpt {

namespace {

// The place in its sequence of the `index`-th place held here.
std::int64_t place_of(const MicroBatchShape& shape, std::int64_t index) {
  for (const training::Range& range : shape.places) {
    if (index < range.count) return range.begin + index;
    index -= range.count;
  }
  return index;
}

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
  const float factor = 1.0f / (1.0f - dropped);
  const std::int64_t width = context_->config.width;
  const std::int64_t places = context_->shape.places_here();
  if (training::Compute* const on = training::compute_of(values)) {
    return on->launch_elements(training::DropoutRun{on->at(values), values.size(), static_cast<std::uint64_t>(width),
                                                    held_places(*context_, batch), stream, dropped, factor},
                               values.size());
  }
  const training::Range held = context_->held();
  for (std::int64_t row = 0; row < held.count; ++row) {
    const std::int64_t here = held.begin + row;
    const std::int64_t sequence = batch.first_sequence + here / places;
    const std::int64_t token = sequence * context_->config.context + place_of(context_->shape, here % places);
    for (std::int64_t column = 0; column < width; ++column) {
      float& value = values[static_cast<std::size_t>(row * width + column)];
      value = stream.uniform(static_cast<std::uint64_t>(token * width + column)) < dropped ? 0.0f : value * factor;
    }
  }
}

}  // namespace wreath::gpt
