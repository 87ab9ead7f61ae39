// This file computes causal attention by blocks, with a running softmax. For each head it multiplies blocks of queries
// with blocks of keys, and works row by row between these products.
#include "training/compute/attention.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "training/compute/compute.hpp"
#include "training/compute/kernels/kernels.hpp"
#include "training/compute/matrix_kernel.hpp"
#include "training/compute/row_kernels.hpp"
#include "training/compute/threads.hpp"

namespace wreath::training {

namespace {

// Scores of a block of this size stay in the first caches. The rows of every instruction set's tile divide kQueryBlock.
constexpr std::int64_t kQueryBlock = 48;
constexpr std::int64_t kKeyBlock = 128;
struct alignas(64) Scores {
  float rows[kQueryBlock][kKeyBlock];
};

// Returns the number of keys that the query at place `place` sees.
std::int64_t seen(const Rows<const float>& keys, std::int64_t place) {
  return std::clamp<std::int64_t>(place - keys.first + 1, 0, keys.count);
}

// One head of rows [first, first + count) of one sequence.
struct Head {
  const AttentionShape& shape;
  std::int64_t head;
  std::int64_t sequence;

  template <typename T>
  T* row(const Rows<T>& rows, std::int64_t at) const {
    return rows.data + sequence * rows.sequence_stride + at * rows.stride + head * shape.head_size;
  }
  template <typename T>
  T& value(const HeadValues<T>& values, std::int64_t at) const {
    return values.data[sequence * values.sequence_stride + at * shape.heads + head];
  }
  template <typename T>
  MatrixView view(const Rows<T>& rows, std::int64_t first, std::int64_t count) const {
    return {row(rows, first), count, shape.head_size, rows.stride, 1};
  }
  float factor() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }
};

// The factors that dropout multiplies a query's probabilities by.
class KeepFactors {
 public:
  explicit KeepFactors(const AttentionShape& shape) : dropout_(shape.dropout) {}
  bool all() const { return dropout_.share <= 0; }
  // Draws the factors for the query at place `query` and `count` keys from place `key` on.
  void draw(const Head& of, std::int64_t query, std::int64_t key, std::int64_t count) {
    const std::int64_t sequence = dropout_.sequence + of.sequence;
    const std::int64_t row = (sequence * dropout_.heads + dropout_.first_head + of.head) * dropout_.length + query;
    const std::span<float> factors(factors_, static_cast<std::size_t>(count));
    dropout_.stream->uniform(static_cast<std::uint64_t>(row * dropout_.length + key), factors);
    const float kept = 1.0f / (1.0f - dropout_.share);
    for (float& factor : factors) factor = factor < dropout_.share ? 0.0f : kept;
  }
  void apply(float* row, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) row[i] *= factors_[i];
  }

 private:
  const AttentionDropout& dropout_;
  float factors_[kKeyBlock];
};

// A block of queries and keys. Each query sees at least the first key, and the last query sees the last key.
struct Block {
  std::int64_t query;
  std::int64_t queries;
  std::int64_t key;
  std::int64_t keys;

  MatrixView view(const Scores& of) const { return {of.rows[0], queries, keys, kKeyBlock, 1}; }
};

// Calls body(block) for the blocks of the causal triangle. For each query the keys come in ascending order, and for
// each key the queries do.
template <typename Body>
void for_blocks(const Rows<const float>& queries, const Rows<const float>& keys, Body body) {
  for (std::int64_t query = 0; query < queries.count; query += kQueryBlock) {
    const std::int64_t end = std::min(query + kQueryBlock, queries.count);
    const std::int64_t all = seen(keys, queries.first + end - 1);
    for (std::int64_t key = 0; key < all; key += kKeyBlock) {
      const std::int64_t first = std::clamp(keys.first + key - queries.first, query, end - 1);
      body(Block{first, end - first, key, std::min(kKeyBlock, all - key)});
    }
  }
}

std::int64_t seen_in(const Block& block, const Rows<const float>& queries, const Rows<const float>& keys,
                     std::int64_t row) {
  return std::min(seen(keys, queries.first + row) - block.key, block.keys);
}

// Calls body(head) for each head of each sequence. The heads share nothing, so threads divide them.
template <typename Body>
void for_heads(const AttentionShape& shape, std::int64_t queries, std::int64_t keys, const Body& body) {
  // A part of this much work pays for the waking of a thread.
  constexpr std::int64_t kPartWork = 1 << 16;
  const std::int64_t grain = kPartWork / (queries * keys * shape.head_size + 1) + 1;
  parallel_for(shape.sequences * shape.heads, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(Head{shape, i % shape.heads, i / shape.heads});
  });
}

// ---- on a device ----

template <typename T>
DeviceRows<T> there(const Compute& on, const Rows<T>& rows) {
  return {on.at(rows.data), rows.stride, rows.sequence_stride, rows.first, rows.count};
}
template <typename T>
DeviceRows<T> there(const Compute& on, const HeadValues<T>& values, const AttentionShape& shape) {
  return {on.at(values.data), shape.heads, values.sequence_stride, 0, 0};
}

DeviceAttention there(const AttentionShape& shape) {
  if (shape.head_size > kMostHeadSize) {
    throw Exception({ErrorCode::InvalidArgument, "attention on a device: heads of " + std::to_string(shape.head_size) +
                                                     " values, at most " + std::to_string(kMostHeadSize)});
  }
  const AttentionDropout& dropout = shape.dropout;
  const bool drops = dropout.share > 0;
  return {shape.sequences,
          shape.heads,
          shape.head_size,
          1.0f / std::sqrt(static_cast<float>(shape.head_size)),
          dropout.share,
          1.0f / (1.0f - dropout.share),
          drops ? *dropout.stream : RandomStream(0, ""),
          dropout.heads,
          dropout.first_head,
          dropout.length,
          dropout.sequence};
}

std::uint64_t blocks_of(const AttentionShape& shape, std::int64_t rows) {
  return static_cast<std::uint64_t>(shape.sequences * shape.heads * attention_tiles(rows));
}

}  // namespace

void attention_add_block(const AttentionShape& shape, Rows<const float> queries, Rows<const float> keys,
                         Rows<const float> values, const RunningSoftmax& running) {
  if (Compute* const on = compute_of(running.weighted.data)) {
    return on->launch(AttentionForwardRun{there(shape), there(*on, queries), there(*on, keys), there(*on, values),
                                          there(*on, running.highest, shape), there(*on, running.sum, shape),
                                          there(*on, running.weighted)},
                      blocks_of(shape, queries.count));
  }
  for_heads(shape, queries.count, keys.count, [&](const Head& of) {
    const auto scores = std::make_unique_for_overwrite<Scores>();
    KeepFactors keep(shape);
    for_blocks(queries, keys, [&](const Block& block) {
      multiply(of.view(queries, block.query, block.queries), of.view(keys, block.key, block.keys).transposed(),
               scores->rows[0], kKeyBlock, Accumulate::No);
      for (std::int64_t i = 0; i < block.queries; ++i) {
        const std::int64_t row = block.query + i;
        const std::int64_t count = seen_in(block, queries, keys, row);
        float* at = scores->rows[i];
        float& before = of.value(running.highest, row);
        float& sum = of.value(running.sum, row);
        const float highest = highest_score(at, count, of.factor(), before);
        const float shrink = std::exp(before - highest);
        sum = sum * shrink + exponentials(at, count, block.keys, of.factor(), highest);
        if (!keep.all()) {
          keep.draw(of, queries.first + row, keys.first + block.key, count);
          keep.apply(at, count);
        }
        scale_row(of.row(running.weighted, row), shrink, shape.head_size);
        before = highest;
      }
      multiply(block.view(*scores), of.view(values, block.key, block.keys), of.row(running.weighted, block.query),
               running.weighted.stride, Accumulate::Yes);
    });
  });
}

void attention_finish(const AttentionShape& shape, const RunningSoftmax& running, HeadValues<float> log_sum_exp) {
  if (Compute* const on = compute_of(running.weighted.data)) {
    const std::int64_t count = shape.sequences * shape.heads * running.weighted.count;
    return on->launch_elements(
        AttentionFinishRun{there(shape), there(*on, running.highest, shape), there(*on, running.sum, shape),
                           there(*on, running.weighted), there(*on, log_sum_exp, shape)},
        static_cast<std::uint64_t>(count));
  }
  for (std::int64_t i = 0; i < shape.sequences * shape.heads; ++i) {
    const Head of{shape, i % shape.heads, i / shape.heads};
    for (std::int64_t row = 0; row < running.weighted.count; ++row) {
      const float sum = of.value(running.sum, row);
      float* out = of.row(running.weighted, row);
      for (std::int64_t column = 0; column < shape.head_size; ++column) out[column] /= sum;
      of.value(log_sum_exp, row) = of.value(running.highest, row) + std::log(sum);
    }
  }
}

void attention_delta(const AttentionShape& shape, Rows<const float> output, Rows<const float> output_gradient,
                     std::span<float> delta) {
  if (Compute* const on = compute_of(delta)) {
    return on->launch_elements(DotRowsRun{on->at(output.data), on->at(output_gradient.data), on->at(delta),
                                          delta.size(), static_cast<std::uint64_t>(shape.head_size)},
                               delta.size());
  }
  for (std::int64_t row = 0; row < output.count; ++row) {
    for (Head of{shape, 0, 0}; of.head < shape.heads; ++of.head) {
      delta[static_cast<std::size_t>(row * shape.heads + of.head)] =
          dot_rows(of.row(output, row), of.row(output_gradient, row), shape.head_size);
    }
  }
}

void attention_backward_block(const AttentionShape& shape, const AttentionQueries& of, Rows<const float> keys,
                              Rows<const float> values, Rows<float> query_gradient, Rows<float> key_gradient,
                              Rows<float> value_gradient) {
  if (Compute* const on = compute_of(query_gradient.data)) {
    AttentionBackwardRun run{there(shape),
                             there(*on, of.queries),
                             there(*on, of.output_gradient),
                             there(*on, of.log_sum_exp, shape),
                             there(*on, of.delta, shape),
                             there(*on, keys),
                             there(*on, values),
                             there(*on, query_gradient),
                             there(*on, key_gradient),
                             there(*on, value_gradient),
                             false};
    on->launch(run, blocks_of(shape, of.queries.count));
    run.of_keys = true;
    return on->launch(run, blocks_of(shape, keys.count));
  }
  for_heads(shape, of.queries.count, keys.count, [&](const Head& head) {
    const auto probabilities = std::make_unique_for_overwrite<Scores>();
    const auto slopes = std::make_unique_for_overwrite<Scores>();
    KeepFactors keep(shape);
    for_blocks(of.queries, keys, [&](const Block& block) {
      const MatrixView block_queries = head.view(of.queries, block.query, block.queries);
      const MatrixView block_outputs = head.view(of.output_gradient, block.query, block.queries);
      const MatrixView block_keys = head.view(keys, block.key, block.keys);
      multiply(block_queries, block_keys.transposed(), probabilities->rows[0], kKeyBlock, Accumulate::No);
      multiply(block_outputs, head.view(values, block.key, block.keys).transposed(), slopes->rows[0], kKeyBlock,
               Accumulate::No);
      for (std::int64_t i = 0; i < block.queries; ++i) {
        const std::int64_t row = block.query + i;
        float* probability = probabilities->rows[i];
        exponentials(probability, seen_in(block, of.queries, keys, row), block.keys, head.factor(),
                     head.value(of.log_sum_exp, row));
        if (!keep.all()) {
          keep.draw(head, of.queries.first + row, keys.first + block.key, block.keys);
          keep.apply(slopes->rows[i], block.keys);
        }
        softmax_row_backward(probability, slopes->rows[i], block.keys, head.value(of.delta, row), head.factor());
        if (!keep.all()) keep.apply(probability, block.keys);
      }
      const MatrixView score_gradient = block.view(*slopes);
      multiply(block.view(*probabilities).transposed(), block_outputs, head.row(value_gradient, block.key),
               value_gradient.stride, Accumulate::Yes);
      multiply(score_gradient, block_keys, head.row(query_gradient, block.query), query_gradient.stride,
               Accumulate::Yes);
      multiply(score_gradient.transposed(), block_queries, head.row(key_gradient, block.key), key_gradient.stride,
               Accumulate::Yes);
    });
  });
}

}  // namespace wreath::training
