// The matrix product of float32, whose every element has the same bits whatever the shape around it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath::training {

// A matrix in memory of the caller; strides in elements.
struct MatrixView {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
  MatrixView transposed() const noexcept { return {data, columns, rows, column_stride, row_stride}; }
};

// Rows one after the other.
inline MatrixView matrix(const float* data, std::int64_t rows, std::int64_t columns) noexcept {
  return {data, rows, columns, columns, 1};
}

enum class Accumulate : std::uint8_t { No, Yes };

// result[i][j] = (0 or result[i][j]) + sum over k of left[i][k] * right[k][j], k ascending, one fused multiply-add
// after the other: the bits of an element depend on its row of `left`, its column of `right` and nothing else, neither
// the other rows and columns nor threads (an instruction set without fused multiply-add rounds twice, and so differs
// from one that has it). result is row-major, `result_stride` elements from row to row, and overlaps neither input.
// In memory of a Compute (compute_of) the own kernel gives these bits, too, with fused multiply-adds; cuBLASLt, where
// the Compute has it (training/compute/products.hpp), gives others. Throws InvalidArgument where left has not as many
// columns as right has rows.
void matrix_product(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
                    Accumulate accumulate = Accumulate::No);

// MatrixProduct says which of two multiplies in this process: the kernel whose bits are as said above, or OpenBLAS, whose bits depend on the
// shape and on math_threads() (views that neither lie row by row nor column by column remain with the own kernel).
// Throws Unavailable where the build lacks it (CMake option WREATH_OPENBLAS).
enum class MatrixProduct : std::uint8_t { Own, OpenBlas };
void set_matrix_product(MatrixProduct by);

}  // namespace wreath::training
