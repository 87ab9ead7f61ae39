// This file declares layers divided over the ranks of a tensor-parallel group (Shoeybi et al., "Megatron-LM", 2019).
// They support sequence parallelism (Korthikanti et al., "Reducing activation recomputation", 2022).
//
// Between divided layers, activations are [rows][width] on every rank; with sequence parallelism each rank holds its
// part of the rows (TensorRegion::held_rows). All ranks of the group make the same calls in the same order. With fp8
// each call of a linear layer has one all_reduce of 8 bytes more.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/mesh/group.hpp"
#include "training/parameters/parameter.hpp"

namespace wreath::training {

// The group, and the division of activations outside of divided layers.
class TensorRegion {
 public:
  // With fp8, linear layers multiply values of 8-bit formats: e4m3 for inputs and weights, e5m2 for gradients
  // (Fp8Factors).
  TensorRegion(Group& group, bool sequence_parallel, MemoryAccounting& memory, bool fp8 = false);
  Group& group() const noexcept { return *group_; }
  bool sequence_parallel() const noexcept { return sequence_parallel_; }
  bool fp8() const noexcept { return fp8_; }
  MemoryAccounting& memory() const noexcept { return *memory_; }
  // Returns the rows of `rows` that this rank holds outside of divided layers: all, or its part.
  Range held_rows(std::int64_t rows) const noexcept;

 private:
  Group* group_;
  bool sequence_parallel_;
  MemoryAccounting* memory_;
  bool fp8_;
};

// The options of y = x W + bias. W is [inputs][outputs], as in HF's Conv1D.
struct LinearOptions {
  // The parameters are name + ".weight" and name + ".bias".
  std::string name;
  std::int64_t inputs = 0;  // of the whole layer
  std::int64_t outputs = 0;
  // The outputs (column) or inputs (row) held here; empty means part_of().
  std::vector<Range> ranges = {};
  bool bias = false;
  float initial_deviation = 0;
  int unit = 0;
};

// Divides outputs: x is [held rows][inputs], y is [rows][outputs here]. Forward with sequence parallelism takes one
// all_gather of x. Backward takes one all_reduce of the input's gradient, or with sequence parallelism one
// reduce_scatter, and one all_gather of x for the weights.
class ColumnParallelLinear {
 public:
  ColumnParallelLinear(ParameterList& parameters, const LinearOptions& options, TensorRegion& region);
  std::int64_t outputs_here() const noexcept { return outputs_here_; }
  // Computes y; `rows` counts those of the whole activation.
  void forward(std::int64_t rows, std::span<const float> x, std::span<float> y) const;
  void backward(std::int64_t rows, std::span<const float> y_gradient, std::span<float> x_gradient) const;
  // Adds to the parameters' gradients.
  void backward_weights(std::int64_t rows, std::span<const float> x, std::span<const float> y_gradient);

 private:
  TensorRegion* region_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  std::int64_t inputs_;
  std::int64_t outputs_here_;
};

// Divides inputs: x is [rows][inputs here], y is [held rows][outputs]. Forward takes one all_reduce of y, or with
// sequence parallelism one reduce_scatter. The bias, which every rank holds, is added after it. Backward with sequence
// parallelism takes one all_gather of the output's gradient, and one more for the weights.
class RowParallelLinear {
 public:
  RowParallelLinear(ParameterList& parameters, const LinearOptions& options, TensorRegion& region);
  std::int64_t inputs_here() const noexcept { return inputs_here_; }
  void forward(std::int64_t rows, std::span<const float> x, std::span<float> y) const;
  void backward(std::int64_t rows, std::span<const float> y_gradient, std::span<float> x_gradient) const;
  void backward_weights(std::int64_t rows, std::span<const float> x, std::span<const float> y_gradient);

 private:
  TensorRegion* region_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  std::int64_t inputs_here_;
  std::int64_t outputs_;
};

// The options of a table [vocabulary][width] divided by rows, and padded to a multiple of the ranks. It serves as an
// embedding, and (tied) as the output layer.
struct VocabularyOptions {
  std::string name;  // the parameter is name + ".weight"
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  float initial_deviation = 0;
  bool tied = false;  // Parameter::tied
  int unit = 0;
};

class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(ParameterList& parameters, const VocabularyOptions& options, TensorRegion& region);
  // Uses the same table once more, for the output layer beside the embedding.
  VocabParallelEmbedding(Parameter& table, const VocabularyOptions& options, TensorRegion& region);
  Parameter& table() const noexcept { return *table_; }
  std::int64_t vocabulary_here() const noexcept { return rows_here_; }  // padding included

  // Computes y [held rows][width] by one all_reduce, or reduce_scatter with sequence parallelism.
  void forward(std::span<const std::int32_t> tokens, std::span<float> y) const;
  void backward_weights(std::span<const std::int32_t> tokens, std::span<const float> y_gradient);

  // Computes logits [rows][vocabulary here] = x table^T, where x is [held rows][width]. It communicates like
  // ColumnParallelLinear.
  void logits(std::int64_t rows, std::span<const float> x, std::span<float> logits) const;
  void logits_backward(std::int64_t rows, std::span<const float> logits_gradient, std::span<float> x_gradient) const;
  void logits_backward_weights(std::int64_t rows, std::span<const float> x, std::span<const float> logits_gradient);

  // Returns -log softmax(logits)[target] of each row, in float64, in the memory where the logits lie. The vocabulary's
  // padding takes no part. Replaces logits by gradient_scale * (softmax - target). It takes three all_reduces of one
  // float a row: the highest, the sum of exp, and the target's.
  Buffer<double> cross_entropy(std::span<float> logits, std::span<const std::int32_t> targets,
                               float gradient_scale) const;

 private:
  TensorRegion* region_;
  Parameter* table_;
  std::int64_t vocabulary_;
  std::int64_t width_;
  std::int64_t rows_here_;
  std::int64_t first_;  // of the rows here
};

// Returns the sum of the losses in the order of the rows. Waits for a device.
double sum_of(const Buffer<double>& losses);

}  // namespace wreath::training
