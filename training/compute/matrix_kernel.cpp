// This file has the matrix product by packed panels and tiles of registers. It is compiled once per instruction set
// (Highway).
#include "training/compute/matrix_kernel.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "training/compute/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/compute/matrix_kernel.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#ifndef WREATH_TRAINING_MATH_PACKED
#define WREATH_TRAINING_MATH_PACKED
namespace wreath::training {
namespace {

// The sizes of blocks. Panels of `left` stay in the second cache, panels of `right` in the third, and one panel of
// `right` in the first. The rows of every tile divide kBlockRows, and its columns divide kBlockColumns.
inline constexpr std::int64_t kBlockRows = 144;
inline constexpr std::int64_t kBlockDepth = 256;
inline constexpr std::int64_t kBlockColumns = 1024;

// Blocks in the order in which tiles read them. They consist of panels of lines (rows of `left`, columns of `right`). A
// panel holds its lines' values at depth 0, then at depth 1, and so on. Lines beyond the last are zero.
struct alignas(64) Packed {
  float left[kBlockRows * kBlockDepth];
  float right[kBlockColumns * kBlockDepth];
};

// A matrix as lines to pack.
struct Lines {
  const float* data;
  std::int64_t count;
  std::int64_t depth;
  std::int64_t line_stride;
  std::int64_t depth_stride;
};

struct Product {
  MatrixView left;
  MatrixView right;
  float* result;
  std::int64_t result_stride;
  bool accumulate;
};

}  // namespace
}  // namespace wreath::training
#endif  // WREATH_TRAINING_MATH_PACKED

HWY_BEFORE_NAMESPACE();
namespace wreath::training {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using Vector = hn::Vec<D>;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

// The size of a tile, which fills the registers together with two vectors of a panel of `right` and one value of
// `left`.
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 12 : 6;
constexpr std::int64_t kTileColumns = 2 * kLanes;
static_assert(kBlockRows % kTileRows == 0 && kBlockColumns % kTileColumns == 0);

// The first kRows rows of a tile of the result.
template <int kRows>
struct Tile {
  Tile<kRows - 1> above;
  Vector low;
  Vector high;

  HWY_INLINE void clear() {
    above.clear();
    low = hn::Zero(D());
    high = hn::Zero(D());
  }
  HWY_INLINE void load(const float* result, std::int64_t stride) {
    above.load(result, stride);
    low = hn::LoadU(D(), result + (kRows - 1) * stride);
    high = hn::LoadU(D(), result + (kRows - 1) * stride + kLanes);
  }
  HWY_INLINE void store(float* result, std::int64_t stride) const {
    above.store(result, stride);
    hn::StoreU(low, D(), result + (kRows - 1) * stride);
    hn::StoreU(high, D(), result + (kRows - 1) * stride + kLanes);
  }
  HWY_INLINE void add(const float* left, Vector right_low, Vector right_high) {
    above.add(left, right_low, right_high);
    const Vector value = hn::Set(D(), left[kRows - 1]);
    low = hn::MulAdd(value, right_low, low);
    high = hn::MulAdd(value, right_high, high);
  }
};
template <>
struct Tile<0> {
  HWY_INLINE void clear() {}
  HWY_INLINE void load(const float* /*result*/, std::int64_t /*stride*/) {}
  HWY_INLINE void store(float* /*result*/, std::int64_t /*stride*/) const {}
  HWY_INLINE void add(const float* /*left*/, Vector /*right_low*/, Vector /*right_high*/) {}
};

template <int kRows>
void run_tile(const float* left, const float* right, std::int64_t depth, float* result, std::int64_t stride,
              bool accumulate) {
  Tile<kRows> tile;
  if (accumulate) {
    tile.load(result, stride);
  } else {
    tile.clear();
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    tile.add(left, hn::Load(D(), right), hn::Load(D(), right + kLanes));
    left += kTileRows;
    right += kTileColumns;
  }
  tile.store(result, stride);
}

using RunTile = void (*)(const float*, const float*, std::int64_t, float*, std::int64_t, bool);

template <int kRows>
RunTile tile_of(std::int64_t rows) {
  if constexpr (kRows == 1) {
    return run_tile<1>;
  } else {
    return rows == kRows ? run_tile<kRows> : tile_of<kRows - 1>(rows);
  }
}

// Computes a tile of fewer columns through one of full width, so an element takes the same operations.
void run_narrow_tile(RunTile run, const float* left, const float* right, const Product& block, std::int64_t columns) {
  alignas(64) float whole[kTileRows * kTileColumns] = {};
  for (std::int64_t row = 0; block.accumulate && row < block.left.rows; ++row) {
    std::copy_n(block.result + row * block.result_stride, columns, whole + row * kTileColumns);
  }
  run(left, right, block.left.columns, whole, kTileColumns, block.accumulate);
  for (std::int64_t row = 0; row < block.left.rows; ++row) {
    std::copy_n(whole + row * kTileColumns, columns, block.result + row * block.result_stride);
  }
}

// ---- packing ----

// Transposes four lines' values at depth 0 to 3. The rows of the target are `width` apart.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void transpose4(const float* source, std::int64_t line_stride, float* target, std::int64_t width) {
  for (std::int64_t k = 0; k < 4; ++k) {
    for (std::int64_t line = 0; line < 4; ++line) target[k * width + line] = source[line * line_stride + k];
  }
}
#else
HWY_INLINE void transpose4(const float* source, std::int64_t line_stride, float* target, std::int64_t width) {
  const hn::FixedTag<float, 4> four;
  const auto a = hn::LoadU(four, source);
  const auto b = hn::LoadU(four, source + line_stride);
  const auto c = hn::LoadU(four, source + 2 * line_stride);
  const auto d = hn::LoadU(four, source + 3 * line_stride);
  const auto ac_low = hn::InterleaveLower(four, a, c);
  const auto bd_low = hn::InterleaveLower(four, b, d);
  const auto ac_high = hn::InterleaveUpper(four, a, c);
  const auto bd_high = hn::InterleaveUpper(four, b, d);
  hn::StoreU(hn::InterleaveLower(four, ac_low, bd_low), four, target);
  hn::StoreU(hn::InterleaveUpper(four, ac_low, bd_low), four, target + width);
  hn::StoreU(hn::InterleaveLower(four, ac_high, bd_high), four, target + 2 * width);
  hn::StoreU(hn::InterleaveUpper(four, ac_high, bd_high), four, target + 3 * width);
}
#endif

// Packs lines [first, last) of a panel at depths from `depth` on, value by value.
template <std::int64_t kWidth>
void pack_rest(const Lines& lines, std::int64_t first, std::int64_t last, std::int64_t depth, float* target) {
  for (std::int64_t line = first; line < last; ++line) {
    const float* source = lines.data + line * lines.line_stride;
    for (std::int64_t k = depth; k < lines.depth; ++k) target[k * kWidth + line] = source[k * lines.depth_stride];
  }
}

// Packs up to kWidth lines.
template <std::int64_t kWidth>
void pack_panel(const Lines& lines, float* target) {
  if (lines.count < kWidth) std::fill_n(target, kWidth * lines.depth, 0.0f);
  if (lines.line_stride == 1 && lines.count == kWidth) {
    for (std::int64_t k = 0; k < lines.depth; ++k) {
      std::memcpy(target + k * kWidth, lines.data + k * lines.depth_stride, kWidth * sizeof(float));
    }
  } else if (lines.depth_stride == 1) {
    const std::int64_t whole_lines = lines.count / 4 * 4;
    const std::int64_t whole_depth = lines.depth / 4 * 4;
    for (std::int64_t k = 0; k < whole_depth; k += 4) {
      for (std::int64_t line = 0; line < whole_lines; line += 4) {
        transpose4(lines.data + line * lines.line_stride + k, lines.line_stride, target + k * kWidth + line, kWidth);
      }
    }
    pack_rest<kWidth>(lines, 0, whole_lines, whole_depth, target);
    pack_rest<kWidth>(lines, whole_lines, lines.count, 0, target);
  } else {
    pack_rest<kWidth>(lines, 0, lines.count, 0, target);
  }
}

template <std::int64_t kWidth>
void pack(Lines lines, float* target) {
  const std::int64_t all = lines.count;
  for (std::int64_t line = 0; line < all; line += kWidth) {
    lines.count = std::min(kWidth, all - line);
    pack_panel<kWidth>(lines, target + line * lines.depth);
    lines.data += kWidth * lines.line_stride;
  }
}

// ---- blocks ----

// Multiplies a block of rows with a block of columns, both packed.
void multiply_packed(const Packed& packed, const Product& block) {
  const std::int64_t depth = block.left.columns;
  for (std::int64_t column = 0; column < block.right.columns; column += kTileColumns) {
    const std::int64_t columns = std::min(kTileColumns, block.right.columns - column);
    for (std::int64_t row = 0; row < block.left.rows; row += kTileRows) {
      Product tile = block;
      tile.left.rows = std::min<std::int64_t>(kTileRows, block.left.rows - row);
      tile.result += row * block.result_stride + column;
      const RunTile run = tile_of<kTileRows>(tile.left.rows);
      const float* left = packed.left + row * depth;
      const float* right = packed.right + column * depth;
      if (columns == kTileColumns) {
        run(left, right, depth, tile.result, block.result_stride, block.accumulate);
      } else {
        run_narrow_tile(run, left, right, tile, columns);
      }
    }
  }
}

// Returns a part of a matrix.
MatrixView part(const MatrixView& of, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  return {of.data + row * of.row_stride + column * of.column_stride, std::min(rows, of.rows - row),
          std::min(columns, of.columns - column), of.row_stride, of.column_stride};
}

void multiply_blocks(const Product& product, Packed& packed) {
  Product block = product;
  for (std::int64_t column = 0; column < product.right.columns; column += kBlockColumns) {
    for (std::int64_t k = 0; k < product.left.columns; k += kBlockDepth) {
      block.accumulate = product.accumulate || k > 0;
      block.right = part(product.right, k, kBlockDepth, column, kBlockColumns);
      pack<kTileColumns>(
          {block.right.data, block.right.columns, block.right.rows, block.right.column_stride, block.right.row_stride},
          packed.right);
      for (std::int64_t row = 0; row < product.left.rows; row += kBlockRows) {
        block.left = part(product.left, row, kBlockRows, k, kBlockDepth);
        block.result = product.result + row * product.result_stride + column;
        pack<kTileRows>(
            {block.left.data, block.left.rows, block.left.columns, block.left.row_stride, block.left.column_stride},
            packed.left);
        multiply_packed(packed, block);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace wreath::training
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath::training {

namespace {
HWY_EXPORT(multiply_blocks);
}

void multiply(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
              Accumulate accumulate) {
  thread_local const auto packed = std::make_unique_for_overwrite<Packed>();
  const bool adds = accumulate == Accumulate::Yes;
  if (left.columns == 0 && !adds) {
    for (std::int64_t row = 0; row < left.rows; ++row) std::fill_n(result + row * result_stride, right.columns, 0.0f);
    return;
  }
  HWY_DYNAMIC_DISPATCH(multiply_blocks)({left, right, result, result_stride, adds}, *packed);
}

}  // namespace wreath::training
#endif  // HWY_ONCE
