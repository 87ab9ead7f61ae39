// Causal attention by blocks, with a running softmax: per head, matrix products of a block of queries with a block of
// keys, and row by row what lies between them.
#include "training/math/attention.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "training/math/matrix_kernel.hpp"
#include "training/math/row_kernels.hpp"
#include "training/math/threads.hpp"

namespace wreath::training {

namespace {

// Blocks whose scores stay in the first caches; a block of queries divides by every tile's rows.
constexpr std::int64_t kQueryBlock = 48;
constexpr std::int64_t kKeyBlock = 128;
struct alignas(64) Scores {
  float rows[kQueryBlock][kKeyBlock];
};

// Keys that the query at place `place` sees.
std::int64_t seen(const Rows<const float>& keys, std::int64_t place) {
  return std::clamp<std::int64_t>(place - keys.first + 1, 0, keys.count);
}

// One head of rows [first, first + count).
struct Head {
  const AttentionShape& shape;
  std::int64_t head;

  template <typename T>
  T* row(const Rows<T>& rows, std::int64_t at) const {
    return rows.data + at * rows.stride + head * shape.head_size;
  }
  template <typename T>
  MatrixView view(const Rows<T>& rows, std::int64_t first, std::int64_t count) const {
    return {row(rows, first), count, shape.head_size, rows.stride, 1};
  }
  std::size_t index(std::int64_t at) const { return static_cast<std::size_t>(at * shape.heads + head); }
  float factor() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }
};

// What dropout multiplies a query's probabilities by.
class KeepFactors {
 public:
  explicit KeepFactors(const AttentionShape& shape) : dropout_(shape.dropout) {}
  bool all() const { return dropout_.share <= 0; }
  // Of one head and the query at place `query`, for `count` keys from place `key` on.
  void draw(std::int64_t head, std::int64_t query, std::int64_t key, std::int64_t count) {
    const std::int64_t row =
        (dropout_.sequence * dropout_.heads + dropout_.first_head + head) * dropout_.length + query;
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

// Some queries against some keys: each of the queries sees at least the first of the keys, the last of the queries the
// last of the keys.
struct Block {
  std::int64_t query;
  std::int64_t queries;
  std::int64_t key;
  std::int64_t keys;

  MatrixView view(const Scores& of) const { return {of.rows[0], queries, keys, kKeyBlock, 1}; }
};

// Calls body(block) for the blocks of the causal triangle, keys in ascending order for each query and queries for each
// key.
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

// Calls body(head) for each head, divided among threads: heads share nothing.
template <typename Body>
void for_heads(const AttentionShape& shape, std::int64_t queries, std::int64_t keys, const Body& body) {
  constexpr std::int64_t kPartWork = 1 << 16;  // pays for a thread's waking
  const std::int64_t grain = kPartWork / (queries * keys * shape.head_size + 1) + 1;
  parallel_for(shape.heads, grain, [&](std::int64_t begin, std::int64_t end) {
    for (Head head{shape, begin}; head.head < end; ++head.head) body(head);
  });
}

}  // namespace

void attention_add_block(const AttentionShape& shape, Rows<const float> queries, Rows<const float> keys,
                         Rows<const float> values, const RunningSoftmax& running) {
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
        float& before = running.highest[of.index(row)];
        float& sum = running.sum[of.index(row)];
        const float highest = highest_score(at, count, of.factor(), before);
        const float shrink = std::exp(before - highest);
        sum = sum * shrink + exponentials(at, count, block.keys, of.factor(), highest);
        if (!keep.all()) {
          keep.draw(of.head, queries.first + row, keys.first + block.key, count);
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

void attention_finish(const AttentionShape& shape, const RunningSoftmax& running, std::span<float> log_sum_exp) {
  for (Head of{shape, 0}; of.head < shape.heads; ++of.head) {
    for (std::int64_t row = 0; row < running.weighted.count; ++row) {
      const std::size_t at = of.index(row);
      float* out = of.row(running.weighted, row);
      for (std::int64_t i = 0; i < shape.head_size; ++i) out[i] /= running.sum[at];
      log_sum_exp[at] = running.highest[at] + std::log(running.sum[at]);
    }
  }
}

void attention_delta(const AttentionShape& shape, Rows<const float> output, Rows<const float> output_gradient,
                     std::span<float> delta) {
  for (std::int64_t row = 0; row < output.count; ++row) {
    for (Head of{shape, 0}; of.head < shape.heads; ++of.head) {
      delta[of.index(row)] = dot_rows(of.row(output, row), of.row(output_gradient, row), shape.head_size);
    }
  }
}

void attention_backward_block(const AttentionShape& shape, const AttentionQueries& of, Rows<const float> keys,
                              Rows<const float> values, Rows<float> query_gradient, Rows<float> key_gradient,
                              Rows<float> value_gradient) {
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
        const std::size_t at = head.index(row);
        float* probability = probabilities->rows[i];
        exponentials(probability, seen_in(block, of.queries, keys, row), block.keys, head.factor(), of.log_sum_exp[at]);
        if (!keep.all()) {
          keep.draw(head.head, of.queries.first + row, keys.first + block.key, block.keys);
          keep.apply(slopes->rows[i], block.keys);
        }
        softmax_row_backward(probability, slopes->rows[i], block.keys, of.delta[at], head.factor());
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
