// This file declares attention between the chunks of a sequence that two ranks hold. A rank computes it in a ring, on
// its heads after an exchange, or alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "training/context_parallel/attention.hpp"

namespace wreath::training {

// Places of a sequence that lie one after the other, and the first one's place in its holder's rows.
struct SequenceChunk {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t row = 0;
};

// A rank's part of a micro-batch's sequences: sequence_ranges() without the empty ones.
class SequencePart {
 public:
  SequencePart(const AttentionBatch& batch, int ranks, int rank);
  const AttentionBatch& batch() const noexcept { return batch_; }
  const std::vector<SequenceChunk>& chunks() const noexcept { return chunks_; }
  std::int64_t places() const noexcept { return places_; }                                     // of a sequence
  std::int64_t rows() const noexcept { return batch_.sequences * places_; }                    // of all sequences
  std::int64_t width() const noexcept { return batch_.shape.heads * batch_.shape.head_size; }  // of a row
  // Returns the elements of a buffer [sequences][places][of_row].
  std::size_t size(std::int64_t of_row) const noexcept { return static_cast<std::size_t>(rows() * of_row); }

 private:
  AttentionBatch batch_;
  std::vector<SequenceChunk> chunks_;
  std::int64_t places_ = 0;
};

// One of the fields that lie side by side in the rows of a buffer [sequences][places][stride].
template <typename T>
struct RowField {
  T* data = nullptr;
  std::int64_t places = 0;
  std::int64_t stride = 0;
  // Returns the rows of the chunk in all sequences.
  Rows<T> of(const SequenceChunk& chunk) const noexcept {
    return {data + chunk.row * stride, stride, chunk.first, chunk.count, places * stride};
  }
};

// Returns the field that begins `offset` elements into rows of `stride`.
template <typename T>
RowField<T> field(std::span<T> buffer, const SequencePart& part, std::int64_t stride,
                  std::int64_t offset = 0) noexcept {
  // An empty buffer keeps its null pointer, to which no offset may be added.
  T* const data = buffer.empty() ? nullptr : buffer.data() + offset;
  return {data, part.places(), stride};
}

// Keys and values, or their gradients, of a part.
template <typename T>
struct KeyValueRows {
  RowField<T> keys;
  RowField<T> values;
  const SequencePart* part = nullptr;
};

// Returns the last two parts of a buffer [sequences][places][parts][width] as keys and values.
template <typename T>
KeyValueRows<T> key_value(std::span<T> buffer, const SequencePart& part, std::int64_t parts) noexcept {
  const std::int64_t stride = parts * part.width();
  return {field(buffer, part, stride, stride - 2 * part.width()), field(buffer, part, stride, stride - part.width()),
          &part};
}

// The forward pass of a part's queries. Keys and values are added in any order, then finish() writes the results. The
// arguments of the constructor outlive it.
class ForwardBlocks {
 public:
  ForwardBlocks(const SequencePart& part, std::span<const float> qkv, std::span<float> output,
                MemoryAccounting& memory);
  void add(const KeyValueRows<const float>& block);
  // Adds the part's own keys and values.
  void add() { add(key_value(qkv_, part_, 3)); }
  void finish(std::span<float> log_sum_exp);

 private:
  RunningSoftmax running(const SequenceChunk& chunk) const;

  const SequencePart& part_;
  std::span<const float> qkv_;
  RowField<float> output_;
  Buffer<float> highest_;
  Buffer<float> sum_;
};

// The backward pass of a part's queries. Their gradient in `qkv_gradient`, all of which is zero at first, is complete
// when all keys were added.
class BackwardBlocks {
 public:
  struct Known {
    std::span<const float> qkv;
    std::span<const float> output_gradient;
    std::span<const float> log_sum_exp;
    std::span<const float> delta;
  };
  BackwardBlocks(const SequencePart& part, const Known& known, std::span<float> qkv_gradient);
  // Adds a block of keys, and also adds to the gradients of keys and values in `gradient`.
  void add(const KeyValueRows<const float>& block, const KeyValueRows<float>& gradient) const;
  // Adds the part's own keys and values.
  void add() const { add(key_value(known_.qkv, part_, 3), key_value(qkv_gradient_, part_, 3)); }

 private:
  const SequencePart& part_;
  Known known_;
  std::span<float> qkv_gradient_;
};

// Returns the delta of attention_delta() for all rows of a part.
Buffer<float> delta_of(const SequencePart& part, std::span<const float> output, std::span<const float> output_gradient,
                       MemoryAccounting& memory);

// Check that all arguments have the part's sizes. Otherwise they throw InvalidArgument that names `name`.
void expect_sizes(std::string_view name, const SequencePart& part, const ContextAttention::Saved& saved);
void expect_sizes(std::string_view name, const SequencePart& part, std::span<const float> qkv_gradient,
                  std::span<const float> output_gradient);

}  // namespace wreath::training
