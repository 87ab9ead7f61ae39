// This file declares the input of a GPT: the tokens' embeddings and those of their places.
#pragma once

#include <map>
#include <span>

#include "examples/train_gpt/model/context.hpp"
#include "examples/train_gpt/model/dropout.hpp"

namespace wreath::gpt {

// Returns the options of the table of tokens, which the head uses, too.
training::VocabularyOptions vocabulary_options(int unit, bool tied, const ModelContext& context);

class Embedding {
 public:
  // With `tied`, the last pipeline stage, on another rank, holds the table, too.
  Embedding(training::ParameterList& parameters, int unit, bool tied, const ModelContext& context);
  int unit() const noexcept { return unit_; }
  training::Parameter& table() const noexcept { return tokens_.table(); }

  // Writes y [held rows][width].
  void forward(const MicroBatch& batch, std::span<float> y) const;
  // Keeps the gradient for backward_weights; `gradient` may be changed.
  void backward(int micro_batch, const MicroBatch& batch, std::span<float> gradient);
  void backward_weights(int micro_batch, const MicroBatch& batch);

 private:
  const ModelContext* context_;
  int unit_;
  training::VocabParallelEmbedding tokens_;
  training::Parameter* places_;  // [context][width]
  Dropout dropout_;
  std::map<int, training::Buffer<float>> gradients_;
};

}  // namespace wreath::gpt
