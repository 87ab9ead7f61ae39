// This file has the matrix product of OpenBLAS, or stubs where the build has none.
#include "training/compute/openblas.hpp"

#if defined(WREATH_HAS_OPENBLAS)
#include <cblas.h>

#include <limits>
#include <optional>

namespace wreath::training {

namespace {

// A view as BLAS's functions take it.
struct Operand {
  CBLAS_TRANSPOSE transposed;
  blasint stride;
};

std::optional<blasint> narrow(std::int64_t value) {
  if (value < 1 || value > std::numeric_limits<blasint>::max()) return std::nullopt;
  return static_cast<blasint>(value);
}

std::optional<Operand> operand_of(const MatrixView& view) {
  if (view.column_stride == 1 && view.row_stride >= view.columns && narrow(view.row_stride)) {
    return Operand{CblasNoTrans, *narrow(view.row_stride)};
  }
  if (view.row_stride == 1 && view.column_stride >= view.rows && narrow(view.column_stride)) {
    return Operand{CblasTrans, *narrow(view.column_stride)};
  }
  return std::nullopt;
}

}  // namespace

bool openblas_is_built() noexcept { return true; }

void openblas_keep_to_one_thread() { openblas_set_num_threads(1); }

bool openblas_multiply(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
                       Accumulate accumulate) {
  const auto a = operand_of(left);
  const auto b = operand_of(right);
  const auto rows = narrow(left.rows), inner = narrow(left.columns), columns = narrow(right.columns);
  const auto stride = narrow(result_stride);
  if (!a || !b || !rows || !inner || !columns || !stride || *stride < *columns) return false;
  cblas_sgemm(CblasRowMajor, a->transposed, b->transposed, *rows, *columns, *inner, 1.0f, left.data, a->stride,
              right.data, b->stride, accumulate == Accumulate::Yes ? 1.0f : 0.0f, result, *stride);
  return true;
}

}  // namespace wreath::training
#else
namespace wreath::training {

bool openblas_is_built() noexcept { return false; }

void openblas_keep_to_one_thread() {}

bool openblas_multiply(const MatrixView& /*left*/, const MatrixView& /*right*/, float* /*result*/,
                       std::int64_t /*result_stride*/, Accumulate /*accumulate*/) {
  return false;
}

}  // namespace wreath::training
#endif  // defined(WREATH_HAS_OPENBLAS)
