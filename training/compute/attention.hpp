// This file declares causal attention of one block of queries with one block of keys, with a running softmax. A ring of
// ranks, each with a part of the sequence, so computes the same as one rank.
//
// All buffers of a call lie in host memory, or all lie in that of one Compute. A call on a Compute is put into its
// stream. Heads there have at most kMostHeadSize values (training/compute/kernels/block.hpp).
//
// Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022 (backward
// by recomputing the probabilities from the log-sum-exp).
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "training/random/philox.hpp"

namespace wreath::training {

// Rows of one sequence that lie one after the other. Row i is at data + i * stride, and its place in the sequence is
// first + i. All heads of this rank lie side by side in a row of heads * head_size values. The next sequence's rows
// begin sequence_stride values further on.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t sequence_stride = 0;
};

// Drops probabilities after the softmax. Their places in the whole model decide it, so every division of sequences and
// heads drops the same ones. The index of a probability is ((sequence * heads + head) * length + query) * length + key.
// A probability becomes zero where stream->uniform(index) < share; every other one is divided by 1 - share (Srivastava
// et al., "Dropout", 2014).
struct AttentionDropout {
  float share = 0;  // below 1; 0: no dropout
  // The stream belongs to one layer and one step.
  const RandomStream* stream = nullptr;
  std::int64_t heads = 1;       // of the whole model
  std::int64_t first_head = 0;  // of this rank's heads
  std::int64_t length = 1;      // of a whole sequence
  // The number of the first sequence here in the global batch.
  std::int64_t sequence = 0;
};

struct AttentionShape {
  std::int64_t heads = 1;
  // Scores are divided by its square root.
  std::int64_t head_size = 1;
  AttentionDropout dropout = {};
  std::int64_t sequences = 1;
};

// One value for each row and head; a row holds [heads] values.
template <typename T>
struct HeadValues {
  T* data = nullptr;
  std::int64_t sequence_stride = 0;
  HeadValues() = default;
  HeadValues(T* values, std::int64_t to_next) : data(values), sequence_stride(to_next) {}
  // Takes the values of one sequence, from anything that converts to a span.
  template <typename Values>
  requires std::is_convertible_v<Values, std::span<T>> HeadValues(Values&& values)
      : data(std::span<T>(values).data()) {}  // NOLINT(google-explicit-constructor)
};

// The running softmax of a block of queries. For each row and head it holds three numbers: the highest score so far,
// the sum of exp(score - highest), and the sum of exp(score - highest) * value. They begin with -infinity, 0, 0.
struct RunningSoftmax {
  HeadValues<float> highest;
  HeadValues<float> sum;
  Rows<float> weighted;  // [rows][heads * head_size]
};

// Adds one block of keys and values. A query does not see a key that is later in the sequence. A block of which no
// query sees a key changes nothing.
void attention_add_block(const AttentionShape& shape, Rows<const float> queries, Rows<const float> keys,
                         Rows<const float> values, const RunningSoftmax& running);
// Divides `weighted` by `sum` and sets log_sum_exp[row][head] = highest + log(sum).
void attention_finish(const AttentionShape& shape, const RunningSoftmax& running, HeadValues<float> log_sum_exp);

// Sets delta[row][head] to the sum over the head of output_gradient * output, for one sequence.
void attention_delta(const AttentionShape& shape, Rows<const float> output, Rows<const float> output_gradient,
                     std::span<float> delta);
// The backward pass needs these values of a block of queries.
struct AttentionQueries {
  Rows<const float> queries;
  Rows<const float> output_gradient;
  HeadValues<const float> log_sum_exp;
  HeadValues<const float> delta;
};
// Adds the share of one pair of blocks to the gradients of queries, keys and values.
void attention_backward_block(const AttentionShape& shape, const AttentionQueries& of, Rows<const float> keys,
                              Rows<const float> values, Rows<float> query_gradient, Rows<float> key_gradient,
                              Rows<float> value_gradient);

}  // namespace wreath::training
