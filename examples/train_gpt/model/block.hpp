// This file declares a transformer block: layer norm, attention, layer norm, MLP, where each half has a residual beside
// it (pre-LN, like GPT-2).
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "examples/train_gpt/model/context.hpp"
#include "examples/train_gpt/model/dropout.hpp"
#include "examples/train_gpt/model/layer_norm.hpp"
#include "training/random/philox.hpp"

namespace wreath::gpt {

// Runs a block. Activations between blocks are [held rows][width]. The values that a micro-batch's backward pass needs
// are kept under its number.
class Block {
 public:
  Block(training::ParameterList& parameters, int index, int unit, const ModelContext& context);
  int unit() const noexcept { return unit_; }

  // Computes y = block(x). It keeps nothing unless `keep`.
  void forward(int micro_batch, const MicroBatch& batch, std::span<const float> x, std::span<float> y, bool keep);
  // Replaces `gradient`, which is y's on entry, by x's.
  void backward(int micro_batch, const MicroBatch& batch, std::span<float> gradient);
  void backward_weights(int micro_batch);

 private:
  using Buffer = training::Buffer<float>;
  // The kept values of one micro-batch. The backward pass makes the second half, for the weights' gradients.
  struct Kept {
    Buffer x;
    LayerNorm::Saved norm_1, norm_2;
    Buffer normed_1;     // [held][width]
    Buffer qkv;          // [rows][3 * width here]
    Buffer attended;     // [rows][width here]
    Buffer log_sum_exp;  // [rows][heads here]
    Buffer middle;       // [held][width], between the two halves
    Buffer normed_2;     // [held][width]
    Buffer hidden;       // [rows][4 * width here], before GELU
    Buffer activated;    // [rows][4 * width here], after GELU
    Buffer output_gradient, hidden_gradient, normed_2_gradient;
    Buffer middle_gradient, qkv_gradient, normed_1_gradient;
  };

  // `dropout` outlives the batch.
  training::AttentionBatch attention_batch(const MicroBatch& batch,
                                           const training::RandomStream& dropout) const noexcept;
  training::RandomStream probability_stream(const MicroBatch& batch) const;
  std::int64_t rows() const noexcept { return context_->rows(); }
  Kept run(const MicroBatch& batch, Buffer x, std::span<float> y);
  void run_attention(const MicroBatch& batch, Kept& kept);
  void run_mlp(const MicroBatch& batch, Kept& kept, std::span<float> y);
  void backward_mlp(const MicroBatch& batch, Kept& kept, std::span<float> gradient);
  void backward_attention(const MicroBatch& batch, Kept& kept, std::span<float> gradient);

  const ModelContext* context_;
  int index_;
  int unit_;
  LayerNorm norm_1_;
  training::ColumnParallelLinear qkv_;
  training::RowParallelLinear attention_output_;
  LayerNorm norm_2_;
  training::ColumnParallelLinear hidden_;
  training::RowParallelLinear mlp_output_;
  Dropout attention_dropout_;
  Dropout mlp_dropout_;
  std::map<int, Kept> kept_;
};

}  // namespace wreath::gpt
