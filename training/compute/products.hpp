// This file declares matrix products of a Compute.
#pragma once

#include "training/compute/compute.hpp"
#include "training/compute/matrix_product.hpp"

namespace wreath::training {

// The arguments of matrix_product().
struct Product {
  MatrixView left;
  MatrixView right;
  float* result;
  std::int64_t result_stride;
  Accumulate accumulate;
};

// Puts the product into the stream of `on`. All matrices lie in memory of `on`.
void multiply_on(Compute& on, const Product& product);

}  // namespace wreath::training
