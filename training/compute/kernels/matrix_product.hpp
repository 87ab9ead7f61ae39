// This file has the matrix product on blocks of threads. A block computes tiles of the result from slabs of both
// factors in shared memory; a thread keeps sub-tiles of 4 x 4 in registers. An element is a chain of fused
// multiply-adds in ascending k, like on the CPU, so its bits are the CPU's.
#pragma once

#include "training/compute/kernels/block.hpp"

namespace wreath::training {

struct MatrixProductRun {
  const float* left;
  const float* right;
  float* result;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  std::int64_t left_row_stride;
  std::int64_t left_column_stride;
  std::int64_t right_row_stride;
  std::int64_t right_column_stride;
  std::int64_t result_stride;
  bool accumulate;
  std::uint32_t blocks = 1;
};

inline constexpr int kProductTile = 64;
inline constexpr int kProductDepth = 16;
inline constexpr int kSubTile = 4;
inline constexpr int kSubTilesOfSide = kProductTile / kSubTile;
inline constexpr int kSubTiles = kSubTilesOfSide * kSubTilesOfSide;

// The slabs are stored by [k][row or column], so the values that a sub-tile needs lie side by side.
struct ProductShared {
  float left[kProductDepth][kProductTile + kSubTile];
  float right[kProductDepth][kProductTile + kSubTile];
};

// The lines of a factor by k. Lines are rows of the left factor and columns of the right one.
struct ProductFactor {
  const float* data;
  std::int64_t line_stride;
  std::int64_t depth_stride;
  std::int64_t lines;
};

// Loads lines [line, line + kProductTile) at k [depth, depth + kProductDepth), with zeros beyond the ends. Neighbouring
// threads load neighbouring values.
template <typename Block>
WREATH_HOST_DEVICE inline void load_slab(const Block& block, const ProductFactor& factor, std::int64_t line,
                                         std::int64_t depth, std::int64_t end,
                                         float (&slab)[kProductDepth][kProductTile + kSubTile]) {
  const bool by_depth = factor.depth_stride == 1;
  for (unsigned i = block.thread(); i < kProductTile * kProductDepth; i += block.threads()) {
    const unsigned at_line = by_depth ? i / kProductDepth : i % kProductTile;
    const unsigned at_depth = by_depth ? i % kProductDepth : i / kProductTile;
    const bool inside = line + at_line < factor.lines && depth + at_depth < end;
    slab[at_depth][at_line] =
        inside ? factor.data[(line + at_line) * factor.line_stride + (depth + at_depth) * factor.depth_stride] : 0.0f;
  }
}

// The sub-tiles of a thread: numbers thread, thread + threads, and so on. kHeld is the most that a thread may have.
template <unsigned kHeld>
struct SubTiles {
  float sum[kHeld][kSubTile][kSubTile];
};

template <typename Block, unsigned kHeld, typename Body>
WREATH_HOST_DEVICE inline void for_sub_tiles(const Block& block, const Body& body) {
  WREATH_UNROLL_ON_GPU
  for (unsigned held = 0; held < kHeld; ++held) {
    const unsigned tile = block.thread() + held * block.threads();
    if (tile >= kSubTiles) break;
    body(held, static_cast<int>(tile / kSubTilesOfSide) * kSubTile,
         static_cast<int>(tile % kSubTilesOfSide) * kSubTile);
  }
}

template <typename Block, unsigned kHeld>
WREATH_HOST_DEVICE inline void multiply_tile(Block& block, const MatrixProductRun& run, std::int64_t first_row,
                                             std::int64_t first_column) {
  auto& shared = *reinterpret_cast<ProductShared*>(block.shared_memory());
  const ProductFactor left{run.left, run.left_row_stride, run.left_column_stride, run.rows};
  const ProductFactor right{run.right, run.right_column_stride, run.right_row_stride, run.columns};
  SubTiles<kHeld> held;
  for_sub_tiles<Block, kHeld>(block, [&](unsigned at, int row, int column) {
    for (int i = 0; i < kSubTile; ++i) {
      for (int j = 0; j < kSubTile; ++j) {
        const bool inside = first_row + row + i < run.rows && first_column + column + j < run.columns;
        held.sum[at][i][j] = run.accumulate && inside
                                 ? run.result[(first_row + row + i) * run.result_stride + first_column + column + j]
                                 : 0.0f;
      }
    }
  });
  for (std::int64_t depth = 0; depth < run.depth; depth += kProductDepth) {
    load_slab(block, left, first_row, depth, run.depth, shared.left);
    load_slab(block, right, first_column, depth, run.depth, shared.right);
    block.barrier();
    const int slab = static_cast<int>(run.depth - depth < kProductDepth ? run.depth - depth : kProductDepth);
    for_sub_tiles<Block, kHeld>(block, [&](unsigned at, int row, int column) {
      for (int k = 0; k < slab; ++k) {
        WREATH_UNROLL_ON_GPU
        for (int i = 0; i < kSubTile; ++i) {
          WREATH_UNROLL_ON_GPU
          for (int j = 0; j < kSubTile; ++j) {
            held.sum[at][i][j] = fused(shared.left[k][row + i], shared.right[k][column + j], held.sum[at][i][j]);
          }
        }
      }
    });
    block.barrier();
  }
  for_sub_tiles<Block, kHeld>(block, [&](unsigned at, int row, int column) {
    for (int i = 0; i < kSubTile; ++i) {
      for (int j = 0; j < kSubTile; ++j) {
        const bool inside = first_row + row + i < run.rows && first_column + column + j < run.columns;
        if (inside) {
          run.result[(first_row + row + i) * run.result_stride + first_column + column + j] = held.sum[at][i][j];
        }
      }
    }
  });
}

WREATH_HOST_DEVICE constexpr std::int64_t product_tiles(std::int64_t lines) {
  return (lines + kProductTile - 1) / kProductTile;
}

template <typename Block>
WREATH_HOST_DEVICE inline void run_kernel(Block& block, const MatrixProductRun& run) {
  constexpr unsigned kHeld = unsigned{kSubTiles} / kFewestThreads<Block>;
  const std::int64_t of_row = product_tiles(run.columns);
  const std::int64_t tiles = product_tiles(run.rows) * of_row;
  for (std::int64_t tile = block.block(); tile < tiles; tile += run.blocks) {
    multiply_tile<Block, kHeld>(block, run, tile / of_row * kProductTile, tile % of_row * kProductTile);
  }
}

}  // namespace wreath::training
