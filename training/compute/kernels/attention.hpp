// This file has the kernels of causal attention (training/compute/attention.hpp) on blocks of threads. A block takes
// some queries (or keys) of one head of one sequence. It goes through the keys (or queries) that belong to them, with
// one tile of both in shared memory at a time. Its sums stay in registers. It uses no tensor cores.
#pragma once

#include <limits>

#include "training/compute/kernels/block.hpp"
#include "training/random/philox.hpp"

namespace wreath::training {

inline constexpr int kAttentionTile = 16;  // queries, and keys

// Rows of all sequences. Row i of sequence s is at data + s * sequence_stride + i * stride, and its place is first + i.
template <typename T>
struct DeviceRows {
  T* data;
  std::int64_t stride;
  std::int64_t sequence_stride;
  std::int64_t first;
  std::int64_t count;
};

struct DeviceAttention {
  std::int64_t sequences;
  std::int64_t heads;
  std::int64_t head_size;
  float factor;  // of scores
  // The share of probabilities that are dropped. 0 drops none.
  float share;
  float kept;  // 1 / (1 - share)
  RandomStream stream;
  std::int64_t all_heads;
  std::int64_t first_head;
  std::int64_t length;
  std::int64_t first_sequence;
};

struct AttentionForwardRun {
  DeviceAttention of;
  DeviceRows<const float> queries, keys, values;
  DeviceRows<float> highest, sum;  // [heads] a row
  DeviceRows<float> weighted;
  std::uint32_t blocks = 1;
};

// Sets weighted /= sum and log_sum_exp = highest + log(sum).
struct AttentionFinishRun {
  DeviceAttention of;
  DeviceRows<float> highest, sum, weighted, log_sum_exp;
  std::uint32_t blocks = 1;
};

// Adds to the gradient of queries or, with of_keys, to those of keys and values.
struct AttentionBackwardRun {
  DeviceAttention of;
  DeviceRows<const float> queries, output_gradient, log_sum_exp, delta, keys, values;
  DeviceRows<float> query_gradient, key_gradient, value_gradient;
  bool of_keys;
  std::uint32_t blocks = 1;
};

// The + 1 makes rows begin in other banks.
using AttentionTileRows = float[kAttentionTile][kMostHeadSize + 1];
using AttentionTileScores = float[kAttentionTile][kAttentionTile + 1];
struct AttentionShared {
  AttentionTileRows queries, keys, values, output_gradient;
  AttentionTileScores scores, slopes;
  float highest[kAttentionTile], sum[kAttentionTile], shrink[kAttentionTile];
  float log_sum_exp[kAttentionTile], delta[kAttentionTile];
};

// One head of one sequence.
struct AttentionPlace {
  std::int64_t sequence;
  std::int64_t head;
  template <typename T>
  WREATH_HOST_DEVICE T* row(const DeviceRows<T>& rows, std::int64_t at, std::int64_t of_head) const {
    return rows.data + sequence * rows.sequence_stride + at * rows.stride + head * of_head;
  }
};

template <typename Block, typename T>
WREATH_HOST_DEVICE inline void load_rows(const Block& block, const AttentionPlace& place, const DeviceRows<T>& rows,
                                         std::int64_t first, std::int64_t head_size, AttentionTileRows& tile) {
  const auto size = static_cast<unsigned>(head_size);
  for (unsigned i = block.thread(); i < kAttentionTile * size; i += block.threads()) {
    const std::int64_t row = first + i / size;
    tile[i / size][i % size] = row < rows.count ? place.row(rows, row, head_size)[i % size] : 0.0f;
  }
}

// Returns the factor that the probability of a pair is multiplied by.
WREATH_HOST_DEVICE inline float keep_factor(const DeviceAttention& of, const AttentionPlace& place, std::int64_t query,
                                            std::int64_t key) {
  if (of.share <= 0) return 1.0f;
  const std::int64_t row =
      ((of.first_sequence + place.sequence) * of.all_heads + of.first_head + place.head) * of.length + query;
  return of.stream.uniform(static_cast<std::uint64_t>(row * of.length + key)) < of.share ? 0.0f : of.kept;
}

WREATH_HOST_DEVICE inline float dot_of_rows(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum = fused(a[i], b[i], sum);
  return sum;
}

// Calls body(row, other) for all pairs of a tile, divided among the threads.
template <typename Block, typename Body>
WREATH_HOST_DEVICE inline void for_pairs(const Block& block, const Body& body) {
  for (unsigned i = block.thread(); i < kAttentionTile * kAttentionTile; i += block.threads()) {
    body(i / kAttentionTile, i % kAttentionTile);
  }
}

// A thread's sums of a tile [kAttentionTile][head_size]. The thread holds elements thread, thread + threads, and so on.
template <typename Block>
struct TileSums {
  static constexpr unsigned kHeld = unsigned{kAttentionTile * kMostHeadSize} / kFewestThreads<Block>;
  float sum[kHeld];

  // Calls body(sum, row, column) for each element of this thread.
  template <typename Body>
  WREATH_HOST_DEVICE void each(const Block& block, std::int64_t head_size, const Body& body) {
    const auto size = static_cast<unsigned>(head_size);
    WREATH_UNROLL_ON_GPU
    for (unsigned held = 0; held < kHeld; ++held) {
      const unsigned i = block.thread() + held * block.threads();
      if (i < kAttentionTile * size) body(sum[held], i / size, i % size);
    }
  }
  template <typename T>
  WREATH_HOST_DEVICE void load(const Block& block, const AttentionPlace& place, const DeviceRows<T>& rows,
                               std::int64_t first, std::int64_t head_size) {
    each(block, head_size, [&](float& value, unsigned row, unsigned column) {
      value = first + row < rows.count ? place.row(rows, first + row, head_size)[column] : 0.0f;
    });
  }
  WREATH_HOST_DEVICE void store(const Block& block, const AttentionPlace& place, const DeviceRows<float>& rows,
                                std::int64_t first, std::int64_t head_size) {
    each(block, head_size, [&](const float& value, unsigned row, unsigned column) {
      if (first + row < rows.count) place.row(rows, first + row, head_size)[column] = value;
    });
  }
};

WREATH_HOST_DEVICE constexpr std::int64_t attention_tiles(std::int64_t rows) {
  return (rows + kAttentionTile - 1) / kAttentionTile;
}

// Calls body(place, first row) for this block's tiles of all heads and sequences.
template <typename Block, typename Body>
WREATH_HOST_DEVICE inline void for_tiles(const Block& block, std::uint32_t blocks, const DeviceAttention& of,
                                         std::int64_t rows, const Body& body) {
  const std::int64_t tiles = attention_tiles(rows);
  for (std::int64_t i = block.block(); i < of.sequences * of.heads * tiles; i += blocks) {
    const AttentionPlace place{i / tiles / of.heads, i / tiles % of.heads};
    body(place, i % tiles * kAttentionTile);
  }
}

// ---- forward ----

// Computes the scores of a tile and turns them into probabilities up to a factor. A key that the query does not see has
// the score -infinity. The running sums are updated.
template <typename Block>
WREATH_HOST_DEVICE inline void soften_tile(Block& block, const AttentionForwardRun& run, const AttentionPlace& place,
                                           std::int64_t query, std::int64_t key) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  auto& shared = *reinterpret_cast<AttentionShared*>(block.shared_memory());
  for_pairs(block, [&](unsigned row, unsigned column) {
    const std::int64_t from = run.queries.first + query + row;
    const std::int64_t to = run.keys.first + key + column;
    const bool sees = query + row < run.queries.count && key + column < run.keys.count && to <= from;
    shared.scores[row][column] =
        sees ? dot_of_rows(shared.queries[row], shared.keys[column], run.of.head_size) * run.of.factor : kNone;
  });
  block.barrier();
  for (unsigned row = block.thread(); row < kAttentionTile; row += block.threads()) {
    const float before = shared.highest[row];
    float highest = before;
    for (int i = 0; i < kAttentionTile; ++i) highest = std::fmax(highest, shared.scores[row][i]);
    shared.shrink[row] = highest == before ? 1.0f : std::exp(before - highest);
    shared.highest[row] = highest;
  }
  block.barrier();
  for_pairs(block, [&](unsigned row, unsigned column) {
    const float score = shared.scores[row][column];
    shared.scores[row][column] = score == kNone ? 0.0f : std::exp(score - shared.highest[row]);
  });
  block.barrier();
  for (unsigned row = block.thread(); row < kAttentionTile; row += block.threads()) {
    float sum = shared.sum[row] * shared.shrink[row];
    for (int i = 0; i < kAttentionTile; ++i) sum += shared.scores[row][i];
    shared.sum[row] = sum;
  }
  block.barrier();
  if (run.of.share <= 0) return;
  for_pairs(block, [&](unsigned row, unsigned column) {
    shared.scores[row][column] *=
        keep_factor(run.of, place, run.queries.first + query + row, run.keys.first + key + column);
  });
  block.barrier();
}

template <typename Block>
WREATH_HOST_DEVICE inline void attend_tile(Block& block, const AttentionForwardRun& run, const AttentionPlace& place,
                                           std::int64_t query) {
  auto& shared = *reinterpret_cast<AttentionShared*>(block.shared_memory());
  const std::int64_t size = run.of.head_size;
  load_rows(block, place, run.queries, query, size, shared.queries);
  for (unsigned row = block.thread(); row < kAttentionTile; row += block.threads()) {
    const bool inside = query + row < run.queries.count;
    shared.highest[row] = inside ? *place.row(run.highest, query + row, 1) : 0.0f;
    shared.sum[row] = inside ? *place.row(run.sum, query + row, 1) : 0.0f;
  }
  TileSums<Block> weighted;
  weighted.load(block, place, run.weighted, query, size);
  const std::int64_t rest = run.queries.count - query;
  const std::int64_t last = run.queries.first + query + (rest < kAttentionTile ? rest : kAttentionTile) - 1;
  for (std::int64_t key = 0; key < run.keys.count && run.keys.first + key <= last; key += kAttentionTile) {
    load_rows(block, place, run.keys, key, size, shared.keys);
    load_rows(block, place, run.values, key, size, shared.values);
    block.barrier();
    soften_tile(block, run, place, query, key);
    weighted.each(block, size, [&](float& sum, unsigned row, unsigned column) {
      sum *= shared.shrink[row];
      for (int i = 0; i < kAttentionTile; ++i) sum = fused(shared.scores[row][i], shared.values[i][column], sum);
    });
    block.barrier();
  }
  weighted.store(block, place, run.weighted, query, size);
  for (unsigned row = block.thread(); row < kAttentionTile; row += block.threads()) {
    if (query + row >= run.queries.count) continue;
    *place.row(run.highest, query + row, 1) = shared.highest[row];
    *place.row(run.sum, query + row, 1) = shared.sum[row];
  }
  block.barrier();
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const AttentionForwardRun& run) {
  for_tiles(block, run.blocks, run.of, run.queries.count,
            [&](const AttentionPlace& place, std::int64_t query) { attend_tile(block, run, place, query); });
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const AttentionFinishRun& run) {
  const auto heads = static_cast<std::uint64_t>(run.of.heads);
  const auto rows = static_cast<std::uint64_t>(run.weighted.count);
  for_elements(block, run.blocks, static_cast<std::uint64_t>(run.of.sequences) * rows * heads, [&](std::uint64_t i) {
    const AttentionPlace place{static_cast<std::int64_t>(i / heads / rows), static_cast<std::int64_t>(i % heads)};
    const auto row = static_cast<std::int64_t>(i / heads % rows);
    const float sum = *place.row(run.sum, row, 1);
    float* out = place.row(run.weighted, row, run.of.head_size);
    for (std::int64_t column = 0; column < run.of.head_size; ++column) out[column] /= sum;
    *place.row(run.log_sum_exp, row, 1) = *place.row(run.highest, row, 1) + std::log(sum);
  });
}

// ---- backward ----

// Computes the tile's probabilities, as they were multiplied with values, and the gradients of its scores. Queries,
// keys, values and output gradients are in shared memory.
template <typename Block>
WREATH_HOST_DEVICE inline void slope_tile(Block& block, const AttentionBackwardRun& run, const AttentionPlace& place,
                                          std::int64_t query, std::int64_t key) {
  auto& shared = *reinterpret_cast<AttentionShared*>(block.shared_memory());
  for_pairs(block, [&](unsigned row, unsigned column) {
    const std::int64_t from = run.queries.first + query + row;
    const std::int64_t to = run.keys.first + key + column;
    const bool sees = query + row < run.queries.count && key + column < run.keys.count && to <= from;
    float probability = 0;
    float slope = 0;
    if (sees) {
      const float keep = keep_factor(run.of, place, from, to);
      const float score = dot_of_rows(shared.queries[row], shared.keys[column], run.of.head_size) * run.of.factor;
      const float share = std::exp(score - shared.log_sum_exp[row]);
      slope = dot_of_rows(shared.output_gradient[row], shared.values[column], run.of.head_size) * keep;
      slope = share * (slope - shared.delta[row]) * run.of.factor;
      probability = share * keep;
    }
    shared.scores[row][column] = probability;
    shared.slopes[row][column] = slope;
  });
  block.barrier();
}

template <typename Block>
WREATH_HOST_DEVICE inline void load_queries(Block& block, const AttentionBackwardRun& run, const AttentionPlace& place,
                                            std::int64_t query) {
  auto& shared = *reinterpret_cast<AttentionShared*>(block.shared_memory());
  load_rows(block, place, run.queries, query, run.of.head_size, shared.queries);
  load_rows(block, place, run.output_gradient, query, run.of.head_size, shared.output_gradient);
  for (unsigned row = block.thread(); row < kAttentionTile; row += block.threads()) {
    const bool inside = query + row < run.queries.count;
    shared.log_sum_exp[row] = inside ? *place.row(run.log_sum_exp, query + row, 1) : 0.0f;
    shared.delta[row] = inside ? *place.row(run.delta, query + row, 1) : 0.0f;
  }
}

template <typename Block>
WREATH_HOST_DEVICE inline void load_keys(Block& block, const AttentionBackwardRun& run, const AttentionPlace& place,
                                         std::int64_t key) {
  auto& shared = *reinterpret_cast<AttentionShared*>(block.shared_memory());
  load_rows(block, place, run.keys, key, run.of.head_size, shared.keys);
  load_rows(block, place, run.values, key, run.of.head_size, shared.values);
}

template <typename Block>
WREATH_HOST_DEVICE inline void slope_of_queries(Block& block, const AttentionBackwardRun& run,
                                                const AttentionPlace& place, std::int64_t query) {
  auto& shared = *reinterpret_cast<AttentionShared*>(block.shared_memory());
  const std::int64_t size = run.of.head_size;
  TileSums<Block> gradient;
  gradient.load(block, place, run.query_gradient, query, size);
  load_queries(block, run, place, query);
  const std::int64_t rest = run.queries.count - query;
  const std::int64_t last = run.queries.first + query + (rest < kAttentionTile ? rest : kAttentionTile) - 1;
  for (std::int64_t key = 0; key < run.keys.count && run.keys.first + key <= last; key += kAttentionTile) {
    load_keys(block, run, place, key);
    block.barrier();
    slope_tile(block, run, place, query, key);
    gradient.each(block, size, [&](float& sum, unsigned row, unsigned column) {
      for (int i = 0; i < kAttentionTile; ++i) sum = fused(shared.slopes[row][i], shared.keys[i][column], sum);
    });
    block.barrier();
  }
  gradient.store(block, place, run.query_gradient, query, size);
  block.barrier();
}

template <typename Block>
WREATH_HOST_DEVICE inline void slope_of_keys(Block& block, const AttentionBackwardRun& run, const AttentionPlace& place,
                                             std::int64_t key) {
  auto& shared = *reinterpret_cast<AttentionShared*>(block.shared_memory());
  const std::int64_t size = run.of.head_size;
  TileSums<Block> key_gradient;
  TileSums<Block> value_gradient;
  key_gradient.load(block, place, run.key_gradient, key, size);
  value_gradient.load(block, place, run.value_gradient, key, size);
  load_keys(block, run, place, key);
  // Queries before the first key see no key of the tile.
  const std::int64_t before = run.keys.first + key - run.queries.first;
  const std::int64_t begin = before > 0 ? before / kAttentionTile * kAttentionTile : 0;
  for (std::int64_t query = begin; query < run.queries.count; query += kAttentionTile) {
    load_queries(block, run, place, query);
    block.barrier();
    slope_tile(block, run, place, query, key);
    key_gradient.each(block, size, [&](float& sum, unsigned row, unsigned column) {
      for (int i = 0; i < kAttentionTile; ++i) sum = fused(shared.slopes[i][row], shared.queries[i][column], sum);
    });
    value_gradient.each(block, size, [&](float& sum, unsigned row, unsigned column) {
      for (int i = 0; i < kAttentionTile; ++i) {
        sum = fused(shared.scores[i][row], shared.output_gradient[i][column], sum);
      }
    });
    block.barrier();
  }
  key_gradient.store(block, place, run.key_gradient, key, size);
  value_gradient.store(block, place, run.value_gradient, key, size);
  block.barrier();
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const AttentionBackwardRun& run) {
  for_tiles(block, run.blocks, run.of, run.of_keys ? run.keys.count : run.queries.count,
            [&](const AttentionPlace& place, std::int64_t first) {
              if (run.of_keys) {
                slope_of_keys(block, run, place, first);
              } else {
                slope_of_queries(block, run, place, first);
              }
            });
}

}  // namespace wreath::training
