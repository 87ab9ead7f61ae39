// Blocks of queries against blocks of keys, of all sequences and chunks.
#include "training/context_parallel/blocks.hpp"

#include <algorithm>
#include <limits>

#include "training/tensor_parallel/arguments.hpp"

namespace wreath::training {

namespace {

// The values of a chunk in [sequences][places][heads].
template <typename T>
std::span<T> heads_of(const SequencePart& part, std::span<T> values, std::int64_t sequence,
                      const SequenceChunk& chunk) {
  const std::int64_t heads = part.batch().shape.heads;
  return values.subspan(static_cast<std::size_t>((sequence * part.places() + chunk.row) * heads),
                        static_cast<std::size_t>(chunk.count * heads));
}

AttentionShape shape_of(const SequencePart& part, std::int64_t sequence) {
  AttentionShape shape = part.batch().shape;
  shape.dropout.sequence += sequence;
  return shape;
}

// Calls visit(sequence, chunk of queries, chunk of keys) for each pair in which a query sees a key.
template <typename Visit>
void for_each_pair(const SequencePart& queries, const SequencePart& keys, const Visit& visit) {
  for (std::int64_t sequence = 0; sequence < queries.batch().sequences; ++sequence) {
    for (const SequenceChunk& query : queries.chunks()) {
      for (const SequenceChunk& key : keys.chunks()) {
        if (key.first < query.first + query.count) visit(sequence, query, key);
      }
    }
  }
}

Buffer<float> values_of_heads(const SequencePart& part, MemoryAccounting& memory) {
  return {memory, MemoryTag::Workspace, part.size(part.batch().shape.heads)};
}

}  // namespace

ForwardBlocks::ForwardBlocks(const SequencePart& part, std::span<const float> qkv, std::span<float> output,
                             MemoryAccounting& memory)
    : part_(part),
      qkv_(qkv),
      output_(field(output, part, part.width())),
      highest_(values_of_heads(part, memory)),
      sum_(values_of_heads(part, memory)) {
  std::fill_n(highest_.data(), highest_.size(), -std::numeric_limits<float>::infinity());
  std::fill(output.begin(), output.end(), 0.0f);
}

RunningSoftmax ForwardBlocks::running(std::int64_t sequence, const SequenceChunk& chunk) const {
  return {heads_of(part_, highest_.span(), sequence, chunk), heads_of(part_, sum_.span(), sequence, chunk),
          output_.of(sequence, chunk)};
}

void ForwardBlocks::add(const KeyValueRows<const float>& block) {
  const RowField<const float> queries = field(qkv_, part_, 3 * part_.width());
  for_each_pair(part_, *block.part, [&](std::int64_t sequence, const SequenceChunk& query, const SequenceChunk& key) {
    attention_add_block(shape_of(part_, sequence), queries.of(sequence, query), block.keys.of(sequence, key),
                        block.values.of(sequence, key), running(sequence, query));
  });
}

void ForwardBlocks::finish(std::span<float> log_sum_exp) {
  for (std::int64_t sequence = 0; sequence < part_.batch().sequences; ++sequence) {
    for (const SequenceChunk& chunk : part_.chunks()) {
      attention_finish(part_.batch().shape, running(sequence, chunk), heads_of(part_, log_sum_exp, sequence, chunk));
    }
  }
}

BackwardBlocks::BackwardBlocks(const SequencePart& part, const Known& known, std::span<float> qkv_gradient)
    : part_(part), known_(known), qkv_gradient_(qkv_gradient) {
  std::fill(qkv_gradient.begin(), qkv_gradient.end(), 0.0f);
}

void BackwardBlocks::add(const KeyValueRows<const float>& block, const KeyValueRows<float>& gradient) const {
  const RowField<const float> queries = field(known_.qkv, part_, 3 * part_.width());
  const RowField<const float> output_gradient = field(known_.output_gradient, part_, part_.width());
  const RowField<float> query_gradient = field(qkv_gradient_, part_, 3 * part_.width());
  for_each_pair(part_, *block.part, [&](std::int64_t sequence, const SequenceChunk& query, const SequenceChunk& key) {
    const AttentionQueries of{queries.of(sequence, query), output_gradient.of(sequence, query),
                              heads_of(part_, known_.log_sum_exp, sequence, query),
                              heads_of(part_, known_.delta, sequence, query)};
    attention_backward_block(shape_of(part_, sequence), of, block.keys.of(sequence, key),
                             block.values.of(sequence, key), query_gradient.of(sequence, query),
                             gradient.keys.of(sequence, key), gradient.values.of(sequence, key));
  });
}

Buffer<float> delta_of(const SequencePart& part, std::span<const float> output, std::span<const float> output_gradient,
                       MemoryAccounting& memory) {
  Buffer<float> delta = values_of_heads(part, memory);
  attention_delta(part.batch().shape, {output.data(), part.width(), 0, part.rows()},
                  {output_gradient.data(), part.width(), 0, part.rows()}, delta.span());
  return delta;
}

void expect_sizes(std::string_view name, const SequencePart& part, const ContextAttention::Saved& saved) {
  expect_size(name, "qkv", saved.qkv.size(), part.rows() * 3 * part.width());
  expect_size(name, "output", saved.output.size(), part.rows() * part.width());
  expect_size(name, "log_sum_exp", saved.log_sum_exp.size(), part.rows() * part.batch().shape.heads);
}

void expect_sizes(std::string_view name, const SequencePart& part, std::span<const float> qkv_gradient,
                  std::span<const float> output_gradient) {
  expect_size(name, "qkv_gradient", qkv_gradient.size(), part.rows() * 3 * part.width());
  expect_size(name, "output_gradient", output_gradient.size(), part.rows() * part.width());
}

}  // namespace wreath::training
