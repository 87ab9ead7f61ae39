// This file has the vocabulary's table, divided by rows, as embedding and as output layer.
#include <fmt/format.h>

#include <utility>

#include "training/compute/layers.hpp"
#include "training/parameters/arguments.hpp"
#include "training/tensor_parallel/layers.hpp"
#include "training/tensor_parallel/region.hpp"

namespace wreath::training {

namespace {

std::int64_t rows_of_rank(const VocabularyOptions& options, const TensorRegion& region) {
  if (options.vocabulary < 1 || options.width < 1) {
    refuse(options.name, fmt::format("vocabulary and width must be at least 1, but are {} and {}", options.vocabulary,
                                     options.width));
  }
  const int ranks = region.group().ranks();
  return (options.vocabulary + ranks - 1) / ranks;
}

Parameter& add_table(ParameterList& parameters, const VocabularyOptions& options, const TensorRegion& region) {
  const std::int64_t rows = rows_of_rank(options, region);
  Parameter table;
  table.name = options.name + ".weight";
  table.shape = {options.vocabulary, options.width};
  table.sharded_axis = 0;
  table.ranges = {{region.group().rank() * rows, rows}};
  table.initial_deviation = options.initial_deviation;
  table.decays = true;
  table.tied = options.tied;
  table.unit = options.unit;
  return parameters.add(std::move(table));
}

}  // namespace

VocabParallelEmbedding::VocabParallelEmbedding(ParameterList& parameters, const VocabularyOptions& options,
                                               TensorRegion& region)
    : VocabParallelEmbedding(add_table(parameters, options, region), options, region) {}

VocabParallelEmbedding::VocabParallelEmbedding(Parameter& table, const VocabularyOptions& options, TensorRegion& region)
    : region_(&region),
      table_(&table),
      vocabulary_(options.vocabulary),
      width_(options.width),
      rows_here_(rows_of_rank(options, region)),
      first_(region.group().rank() * rows_here_) {}

void VocabParallelEmbedding::forward(std::span<const std::int32_t> tokens, std::span<float> y) const {
  expect_indices(table_->name, "the token", tokens, vocabulary_);
  const MatrixView table = weight_matrix(*table_, rows_here_, width_);
  RowSums sums(*region_, {table_->name, static_cast<std::int64_t>(tokens.size()), width_}, y);
  embedding_forward(tokens, {table.data, table_->value.size()}, static_cast<std::int32_t>(first_), width_,
                    sums.share());
  sums.finish();
}

void VocabParallelEmbedding::backward_weights(std::span<const std::int32_t> tokens, std::span<const float> y_gradient) {
  const std::span<float> gradient = table_->gradient_here();
  const WholeRows whole(*region_, {table_->name, static_cast<std::int64_t>(tokens.size()), width_}, y_gradient);
  embedding_backward(tokens, whole.span(), static_cast<std::int32_t>(first_), width_, gradient);
}

void VocabParallelEmbedding::logits(std::int64_t rows, std::span<const float> x, std::span<float> logits) const {
  const MatrixView table = weight_matrix(*table_, rows_here_, width_);
  product_of_whole_rows(*region_, table_->name, rows, x, table.transposed(), logits);
}

void VocabParallelEmbedding::logits_backward(std::int64_t rows, std::span<const float> logits_gradient,
                                             std::span<float> x_gradient) const {
  const MatrixView table = weight_matrix(*table_, rows_here_, width_);
  sum_of_products(*region_, table_->name, rows, logits_gradient, table, x_gradient);
}

void VocabParallelEmbedding::logits_backward_weights(std::int64_t rows, std::span<const float> x,
                                                     std::span<const float> logits_gradient) {
  const WholeRows whole(*region_, {table_->name, rows, width_}, x);
  add_weight_gradient(rows, logits_gradient, whole.span(), *table_);
}

}  // namespace wreath::training
