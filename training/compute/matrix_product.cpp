// This file checks the arguments of the matrix product and divides it among threads.
#include "training/compute/matrix_product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "training/compute/compute.hpp"
#include "training/compute/matrix_kernel.hpp"
#include "training/compute/openblas.hpp"
#include "training/compute/products.hpp"
#include "training/compute/threads.hpp"
#include "wreath/result.hpp"

namespace wreath::training {

namespace {

constinit std::atomic<MatrixProduct> multiplies{MatrixProduct::Own};

void multiply_part(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
                   Accumulate accumulate) {
  const bool own = multiplies.load(std::memory_order_relaxed) == MatrixProduct::Own;
  if (own || !openblas_multiply(left, right, result, result_stride, accumulate)) {
    multiply(left, right, result, result_stride, accumulate);
  }
}

// A part of this many multiply-adds pays for the waking of a thread.
constexpr std::int64_t kPartWork = std::int64_t{1} << 18;
// Parts begin at multiples of the tiles of every instruction set.
constexpr std::int64_t kTile = 96;

// Returns the number of lines of a part. A part has work for kPartWork and consists of whole tiles.
std::int64_t grain(std::int64_t work_of_line) {
  const std::int64_t lines = kPartWork / std::max<std::int64_t>(work_of_line, 1) + 1;
  return (lines + kTile - 1) / kTile * kTile;
}

// Divides the product by rows or, where there are fewer rows than columns, by columns.
void multiply_divided(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
                      Accumulate accumulate) {
  if (left.rows >= right.columns) {
    parallel_for(left.rows, grain(left.columns * right.columns), [&](std::int64_t begin, std::int64_t end) {
      MatrixView rows = left;
      rows.data += begin * left.row_stride;
      rows.rows = end - begin;
      multiply_part(rows, right, result + begin * result_stride, result_stride, accumulate);
    });
  } else {
    parallel_for(right.columns, grain(left.columns * left.rows), [&](std::int64_t begin, std::int64_t end) {
      MatrixView columns = right;
      columns.data += begin * right.column_stride;
      columns.columns = end - begin;
      multiply_part(left, columns, result + begin, result_stride, accumulate);
    });
  }
}

}  // namespace

void matrix_product(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
                    Accumulate accumulate) {
  if (left.columns != right.rows) {
    throw Exception({ErrorCode::InvalidArgument, fmt::format("matrix_product: shapes {} x {} by {} x {} do not meet",
                                                             left.rows, left.columns, right.rows, right.columns)});
  }
  if (left.rows == 0 || right.columns == 0) return;
  if (Compute* const on = compute_of(result)) {
    return multiply_on(*on, {left, right, result, result_stride, accumulate});
  }
  multiply_divided(left, right, result, result_stride, accumulate);
}

void set_matrix_product(MatrixProduct by) {
  if (by == MatrixProduct::OpenBlas) {
    if (!openblas_is_built()) {
      throw Exception({ErrorCode::Unavailable, "set_matrix_product: this build has no OpenBLAS (WREATH_OPENBLAS=OFF)"});
    }
    openblas_keep_to_one_thread();
  }
  multiplies.store(by, std::memory_order_relaxed);
}

}  // namespace wreath::training
