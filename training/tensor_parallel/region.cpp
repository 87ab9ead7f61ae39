// This file gathers rows for divided layers and sums their results over ranks.
#include "training/tensor_parallel/region.hpp"

#include <algorithm>
#include <vector>

#include "training/parameters/arguments.hpp"

namespace wreath::training {

namespace {

// Returns the elements of each rank's held rows.
std::vector<std::size_t> held_counts(const TensorRegion& region, const RegionRows& activation) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < region.group().ranks(); ++rank) {
    const Range part = part_of(activation.rows, region.group().ranks(), rank);
    counts.push_back(static_cast<std::size_t>(part.count * activation.width));
  }
  return counts;
}

bool divides_rows(const TensorRegion& region) { return region.sequence_parallel() && !region.group().alone(); }

// Runs all_gather or reduce_scatter between held rows and all rows. `whole` is the buffer that holds one block for each
// rank.
void exchange_rows(const TensorRegion& region, const RegionRows& activation, Collective collective,
                   std::span<const float> input, std::span<float> output) {
  const std::vector<std::size_t> counts = held_counts(region, activation);
  Call call = Group::call_of(collective, input, output, counts.front(), {});
  if (activation.rows % region.group().ranks() != 0) {
    (collective == Collective::AllGather ? call.output_blocks : call.input_blocks).counts = counts;
  }
  region.group().run(call);
}

std::size_t elements(const RegionRows& activation) {
  return static_cast<std::size_t>(activation.rows * activation.width);
}

void expect_held(const TensorRegion& region, const RegionRows& activation, std::size_t size) {
  expect_size(activation.name, "an activation", size, region.held_rows(activation.rows).count * activation.width);
}

}  // namespace

TensorRegion::TensorRegion(Group& group, bool sequence_parallel, MemoryAccounting& memory, bool fp8)
    : group_(&group), sequence_parallel_(sequence_parallel), memory_(&memory), fp8_(fp8) {}

Range TensorRegion::held_rows(std::int64_t rows) const noexcept {
  return sequence_parallel_ ? part_of(rows, group_->ranks(), group_->rank()) : Range{0, rows};
}

WholeRows::WholeRows(const TensorRegion& region, const RegionRows& activation, std::span<const float> held)
    : rows_(held) {
  expect_held(region, activation, held.size());
  if (!divides_rows(region)) return;
  gathered_ = Buffer<float>(region.memory(), MemoryTag::Workspace, elements(activation), Contents::Undefined);
  exchange_rows(region, activation, Collective::AllGather, held, gathered_.span());
  rows_ = gathered_.span();
}

RowSums::RowSums(const TensorRegion& region, const RegionRows& activation, std::span<float> held)
    : region_(region), activation_(activation), held_(held), share_(held) {
  expect_held(region, activation, held.size());
  if (!divides_rows(region)) return;
  scratch_ = Buffer<float>(region.memory(), MemoryTag::Workspace, elements(activation), Contents::Undefined);
  share_ = scratch_.span();
}

void RowSums::finish() {
  if (region_.group().alone()) return;
  if (!divides_rows(region_)) return region_.group().all_reduce(held_);
  exchange_rows(region_, activation_, Collective::ReduceScatter, share_, held_);
}

void product_of_whole_rows(const TensorRegion& region, std::string_view name, std::int64_t rows,
                           std::span<const float> x, const MatrixView& weight, std::span<float> y) {
  expect_size(name, "a product", y.size(), rows * weight.columns);
  const WholeRows whole(region, {name, rows, weight.rows}, x);
  matrix_product(matrix(whole.span().data(), rows, weight.rows), weight, y.data(), weight.columns);
}

void sum_of_products(const TensorRegion& region, std::string_view name, std::int64_t rows, std::span<const float> x,
                     const MatrixView& weight, std::span<float> y) {
  expect_size(name, "a factor", x.size(), rows * weight.rows);
  RowSums sums(region, {name, rows, weight.columns}, y);
  matrix_product(matrix(x.data(), rows, weight.rows), weight, sums.share().data(), weight.columns);
  sums.finish();
}

void add_weight_gradient(std::int64_t rows, std::span<const float> left, std::span<const float> right,
                         Parameter& weight) {
  const auto [height, width] = std::pair(weight.local_shape().front(), weight.local_shape().back());
  expect_size(weight.name, "a factor of its gradient", left.size(), rows * height);
  expect_size(weight.name, "a factor of its gradient", right.size(), rows * width);
  matrix_product(matrix(left.data(), rows, height).transposed(), matrix(right.data(), rows, width),
                 weight.gradient_here().data(), width, Accumulate::Yes);
}

MatrixView weight_matrix(const Parameter& weight, std::int64_t rows, std::int64_t columns) {
  const std::span<float> value = weight.value_here();
  expect_size(weight.name, "its value", value.size(), rows * columns);
  return matrix(value.data(), rows, columns);
}

}  // namespace wreath::training
