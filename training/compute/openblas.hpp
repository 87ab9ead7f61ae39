// This file declares the matrix product of OpenBLAS, where the build has it (CMake option WREATH_OPENBLAS).
#pragma once

#include <cstdint>

#include "training/compute/matrix_product.hpp"

namespace wreath::training {

bool openblas_is_built() noexcept;
// Makes OpenBLAS start no threads of its own in this process.
void openblas_keep_to_one_thread();
// Computes the same product as multiply(), but its bits depend on the shape. Returns false, with nothing done, where
// OpenBLAS takes no such strides or sizes, or is not built.
bool openblas_multiply(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
                       Accumulate accumulate);

}  // namespace wreath::training
