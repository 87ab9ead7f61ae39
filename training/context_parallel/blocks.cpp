// This file computes blocks of queries against blocks of keys, of all sequences and chunks.
#include "training/context_parallel/blocks.hpp"

#include <limits>

#include "training/compute/compute.hpp"
#include "training/parameters/arguments.hpp"

namespace wreath::training {

namespace {

// Returns the values of a chunk in [sequences][places][heads].
template <typename T>
HeadValues<T> heads_of(const SequencePart& part, std::span<T> values, const SequenceChunk& chunk) {
  const std::int64_t heads = part.batch().shape.heads;
  return {values.data() + chunk.row * heads, part.places() * heads};
}

AttentionShape shape_of(const SequencePart& part) {
  AttentionShape shape = part.batch().shape;
  shape.sequences = part.batch().sequences;
  return shape;
}

// Calls visit(chunk of queries, chunk of keys) for each pair in which a query sees a key.
template <typename Visit>
void for_each_pair(const SequencePart& queries, const SequencePart& keys, const Visit& visit) {
  for (const SequenceChunk& query : queries.chunks()) {
    for (const SequenceChunk& key : keys.chunks()) {
      if (key.first < query.first + query.count) visit(query, key);
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
  fill(highest_.span(), -std::numeric_limits<float>::infinity());
  fill(output, 0.0f);
}

RunningSoftmax ForwardBlocks::running(const SequenceChunk& chunk) const {
  return {heads_of(part_, highest_.span(), chunk), heads_of(part_, sum_.span(), chunk), output_.of(chunk)};
}

void ForwardBlocks::add(const KeyValueRows<const float>& block) {
  const RowField<const float> queries = field(qkv_, part_, 3 * part_.width());
  for_each_pair(part_, *block.part, [&](const SequenceChunk& query, const SequenceChunk& key) {
    attention_add_block(shape_of(part_), queries.of(query), block.keys.of(key), block.values.of(key), running(query));
  });
}

void ForwardBlocks::finish(std::span<float> log_sum_exp) {
  for (const SequenceChunk& chunk : part_.chunks()) {
    attention_finish(shape_of(part_), running(chunk), heads_of(part_, log_sum_exp, chunk));
  }
}

BackwardBlocks::BackwardBlocks(const SequencePart& part, const Known& known, std::span<float> qkv_gradient)
    : part_(part), known_(known), qkv_gradient_(qkv_gradient) {
  fill(qkv_gradient, 0.0f);
}

void BackwardBlocks::add(const KeyValueRows<const float>& block, const KeyValueRows<float>& gradient) const {
  const RowField<const float> queries = field(known_.qkv, part_, 3 * part_.width());
  const RowField<const float> output_gradient = field(known_.output_gradient, part_, part_.width());
  const RowField<float> query_gradient = field(qkv_gradient_, part_, 3 * part_.width());
  for_each_pair(part_, *block.part, [&](const SequenceChunk& query, const SequenceChunk& key) {
    const AttentionQueries of{queries.of(query), output_gradient.of(query), heads_of(part_, known_.log_sum_exp, query),
                              heads_of(part_, known_.delta, query)};
    attention_backward_block(shape_of(part_), of, block.keys.of(key), block.values.of(key), query_gradient.of(query),
                             gradient.keys.of(key), gradient.values.of(key));
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
