// Causal attention, one block of queries against one block of keys at a time, with a running softmax: so a ring of
// ranks, each with a part of the sequence, computes it as one rank does.
//
// Buffers of a call lie in host memory or all in that of one Compute, where it is put into its stream; heads there have
// at most kMostHeadSize values (training/compute/kernels/block.hpp).
//
// Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022 (backward
// by recomputing the probabilities from the log-sum-exp).
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "training/random/philox.hpp"

namespace wreath::training {

// Rows of one sequence that lie one after the other: row i is at data + i * stride, its place in the sequence is
// first + i. All heads of this rank lie side by side in a row: heads * head_size values. Where there are several
// sequences, the next one's rows are sequence_stride further on.
template <typename T>
struct Rows {
  T* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t sequence_stride = 0;
};

// Drops probabilities, after the softmax: which, their places in the whole model decide, so that every division of
// sequences and heads drops the same. With index ((sequence * heads + head) * length + query) * length + key a
// probability becomes zero where stream->uniform(index) < share, and else is divided by 1 - share (Srivastava et al.,
// "Dropout", 2014).
struct AttentionDropout {
  float share = 0;                       // below 1; 0: none
  const RandomStream* stream = nullptr;  // of a layer and a step
  std::int64_t heads = 1;                // of the whole model
  std::int64_t first_head = 0;           // of those here
  std::int64_t length = 1;               // of a whole sequence
  std::int64_t sequence = 0;             // of the global batch; where there are several, the first of them
};

struct AttentionShape {
  std::int64_t heads = 1;
  std::int64_t head_size = 1;  // scores are divided by its square root
  AttentionDropout dropout = {};
  std::int64_t sequences = 1;
};

// A value for each row and head, [heads] a row.
template <typename T>
struct HeadValues {
  T* data = nullptr;
  std::int64_t sequence_stride = 0;
  HeadValues() = default;
  HeadValues(T* values, std::int64_t to_next) : data(values), sequence_stride(to_next) {}
  // Takes the values of one sequence: whatever converts to a span.
  template <typename Values>
  requires std::is_convertible_v<Values, std::span<T>> HeadValues(Values&& values)
      : data(std::span<T>(values).data()) {}  // NOLINT(google-explicit-constructor)
};

// A block of queries has for each row and head the highest score so far, the sum of exp(score - highest), and the sum
// of exp(score - highest) * value. They begin with -infinity, 0, 0.
struct RunningSoftmax {
  HeadValues<float> highest;
  HeadValues<float> sum;
  Rows<float> weighted;  // [rows][heads * head_size]
};

// Adds one block of keys and values. A key later in the sequence than its query is not seen; a block with none seen
// changes nothing.
void attention_add_block(const AttentionShape& shape, Rows<const float> queries, Rows<const float> keys,
                         Rows<const float> values, const RunningSoftmax& running);
// weighted /= sum; log_sum_exp[row][head] = highest + log(sum).
void attention_finish(const AttentionShape& shape, const RunningSoftmax& running, HeadValues<float> log_sum_exp);

// delta[row][head] = sum over the head of output_gradient * output. Of one sequence.
void attention_delta(const AttentionShape& shape, Rows<const float> output, Rows<const float> output_gradient,
                     std::span<float> delta);
// A block of queries knows this in the backward pass.
struct AttentionQueries {
  Rows<const float> queries;
  Rows<const float> output_gradient;
  HeadValues<const float> log_sum_exp;
  HeadValues<const float> delta;
};
// One pair of blocks: adds to the gradients of queries, keys and values.
void attention_backward_block(const AttentionShape& shape, const AttentionQueries& of, Rows<const float> keys,
                              Rows<const float> values, Rows<float> query_gradient, Rows<float> key_gradient,
                              Rows<float> value_gradient);

}  // namespace wreath::training
