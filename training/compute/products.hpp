// Matrix products of a Compute.
#pragma once

#include "training/compute/compute.hpp"
#include "training/compute/matrix_product.hpp"

namespace wreath::training {

// As matrix_product() is given them.
struct Product {
  MatrixView left;
  MatrixView right;
  float* result;
  std::int64_t result_stride;
  Accumulate accumulate;
};

// All in memory of `on`, in whose stream it is put.
void multiply_on(Compute& on, const Product& product);

}  // namespace wreath::training
