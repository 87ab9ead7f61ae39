// This file declares the output of a GPT: the last layer norm, the scores of the vocabulary, and the loss.
#pragma once

#include <map>
#include <span>

#include "examples/train_gpt/model/context.hpp"
#include "examples/train_gpt/model/layer_norm.hpp"

namespace wreath::gpt {

class Head {
 public:
  // `table` is the embedding's, where this rank holds it already. With null this rank gets the tied table of its own.
  Head(training::ParameterList& parameters, int unit, training::Parameter* table, const ModelContext& context);
  int unit() const noexcept { return unit_; }

  // Returns the rows' losses. With `keep` it also keeps the gradient of gradient_scale times their sum.
  training::Buffer<double> forward(int micro_batch, const MicroBatch& batch, std::span<const float> x,
                                   float gradient_scale, bool keep);
  // Writes scores [rows][vocabulary here], in host memory.
  void scores(std::span<const float> x, std::span<float> scores);
  // Return the number of words whose scores are here, padding included, and the first of them.
  std::int64_t vocabulary_here() const noexcept { return table_.vocabulary_here(); }
  std::int64_t first_word() const noexcept {
    return table_.table().ranges.empty() ? 0 : table_.table().ranges.front().begin;
  }
  // Writes the gradient of x, [held rows][width].
  void backward(int micro_batch, std::span<float> gradient);
  void backward_weights(int micro_batch);

 private:
  struct Kept {
    training::Buffer<float> x, normed, scores_gradient, normed_gradient;
    LayerNorm::Saved norm;
  };
  const ModelContext* context_;
  int unit_;
  LayerNorm norm_;
  training::VocabParallelEmbedding table_;
  std::map<int, Kept> kept_;
};

}  // namespace wreath::gpt
