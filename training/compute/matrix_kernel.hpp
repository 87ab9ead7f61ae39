// This file declares the matrix product of one thread, by the instruction set of this machine.
#pragma once

#include <cstdint>

#include "training/compute/matrix_product.hpp"

namespace wreath::training {

// Multiplies like matrix_product(), on the calling thread. Blocks of the inputs are packed into up to 1.2 MB that the
// thread keeps until it ends.
//
// Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.
void multiply(const MatrixView& left, const MatrixView& right, float* result, std::int64_t result_stride,
              Accumulate accumulate);

}  // namespace wreath::training
