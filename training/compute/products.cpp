// This file multiplies by cuBLASLt where there is one and it takes the product, and otherwise by the own kernel.
#include "training/compute/products.hpp"

#include "training/compute/cublaslt.hpp"
#include "training/compute/kernels/kernels.hpp"

namespace wreath::training {

void multiply_on(Compute& on, const Product& product) {
  if (Cublaslt* const library = on.cublaslt()) {
    if (library->multiply(product, on.factors())) return;
  }
  const MatrixView& left = product.left;
  const MatrixView& right = product.right;
  const MatrixProductRun run{on.at(left.data),    on.at(right.data),     on.at(product.result),
                             left.rows,           right.columns,         left.columns,
                             left.row_stride,     left.column_stride,    right.row_stride,
                             right.column_stride, product.result_stride, product.accumulate == Accumulate::Yes};
  on.launch(run, static_cast<std::uint64_t>(product_tiles(left.rows) * product_tiles(right.columns)));
}

}  // namespace wreath::training
