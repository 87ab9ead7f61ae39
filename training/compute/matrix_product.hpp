// This file declares the matrix product of float32. Every element has the same bits for any shape around it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath::training {

// A matrix in memory of the caller, with strides in elements.
struct MatrixView {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
  MatrixView transposed() const noexcept { return {data, columns, rows, column_stride, row_stride}; }
};

// Returns a view of a matrix whose rows lie one after the other.
inline MatrixView matrix(const float* data, std::int64_t rows, std::int64_t columns) noexcept {
  return {data, rows, columns, columns, 1};
}

enum class Accumulate : std::uint8_t { No, Yes };

// Sets result[i][j] to (0 or result[i][j]) + sum over k of left[i][k] * right[k][j]. It runs with k ascending, one
// fused multiply-add after the other. The bits of an element depend on its row of `left` and its column of `right`, and
// on no other rows, columns or threads. An instruction set without fused multiply-add rounds twice, and so differs from
// one that has it. `result` is row-major, with `result_stride` elements from row to row, and overlaps neither input. In
// memory of a Compute (compute_of) the own kernel gives these bits, too, with fused multiply-adds. Where the Compute
// has cuBLASLt (training/compute/products.hpp), that gives others. Throws InvalidArgument where `left` does not have as
// many columns as `right` has rows.
void matrix_product(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
                    Accumulate accumulate = Accumulate::No);

// Selects the kernel that multiplies in this process. Own has the bits that matrix_product() describes. The bits of
// OpenBLAS depend on the shape and on math_threads(). Views that lie neither row by row nor column by column remain
// with the own kernel. Throws Unavailable where the build lacks OpenBLAS (CMake option WREATH_OPENBLAS).
enum class MatrixProduct : std::uint8_t { Own, OpenBlas };
void set_matrix_product(MatrixProduct by);

}  // namespace wreath::training
