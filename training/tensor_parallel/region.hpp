// This file connects divided layers, which see all rows, with the activations between them. Rows are gathered before a
// divided layer, and sums over ranks are formed behind it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "training/compute/matrix_product.hpp"
#include "training/compute/memory.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training {

// An activation of the whole region, [rows][width]. Errors use `name`.
struct RegionRows {
  std::string_view name;
  std::int64_t rows = 0;
  std::int64_t width = 0;
};

// All rows of an activation of which each rank has its held rows. It is `held` itself where that has all rows.
// Otherwise one all_gather (all_gather_v where rows do not divide by the ranks) gathers them into memory of this
// object.
class WholeRows {
 public:
  WholeRows(const TensorRegion& region, const RegionRows& activation, std::span<const float> held);
  std::span<const float> span() const noexcept { return rows_; }

 private:
  Buffer<float> gathered_;
  std::span<const float> rows_;
};

// The sum over ranks of an activation of which each rank computes a share of all rows. The caller writes its share to
// share() and then calls finish(). That takes one all_reduce in place; with sequence parallelism it takes one
// reduce_scatter (reduce_scatter_v) into `held`.
class RowSums {
 public:
  RowSums(const TensorRegion& region, const RegionRows& activation, std::span<float> held);
  std::span<float> share() const noexcept { return share_; }
  void finish();

 private:
  const TensorRegion& region_;
  RegionRows activation_;
  std::span<float> held_;
  Buffer<float> scratch_;
  std::span<float> share_;
};

// Computes y [rows][weight.columns] = x weight, where x is [held rows][weight.rows].
void product_of_whole_rows(const TensorRegion& region, std::string_view name, std::int64_t rows,
                           std::span<const float> x, const MatrixView& weight, std::span<float> y);
// Computes y [held rows][weight.columns] = the sum over ranks of x weight, where x is [rows][weight.rows].
void sum_of_products(const TensorRegion& region, std::string_view name, std::int64_t rows, std::span<const float> x,
                     const MatrixView& weight, std::span<float> y);
// Computes gradient += left^T right, where both have `rows` rows.
void add_weight_gradient(std::int64_t rows, std::span<const float> left, std::span<const float> right,
                         Parameter& weight);
// Returns the parameter's values as a matrix [rows][columns]. Throws InvalidUsage where they are not in
// memory, and InvalidArgument where they have another size.
MatrixView weight_matrix(const Parameter& weight, std::int64_t rows, std::int64_t columns);

}  // namespace wreath::training
