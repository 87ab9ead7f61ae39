// Linear layers with 8-bit factors are compared with products of factors rounded by hand.
#include <gtest/gtest.h>

#include <functional>
#include <mutex>

#include "tests/training/tensor_parallel/ranks.hpp"
#include "training/compute/matrix_product.hpp"
#include "training/tensor_parallel/fp8_factors.hpp"

namespace wreath::training::test::fp8 {
namespace {

constexpr std::int64_t kRows = 6, kInputs = 8, kOutputs = 12;

TEST(Fp8, ScaleIsTheHighestPowerOfTwoThatFits) {
  EXPECT_EQ(scale_for(DataType::Float8E4M3, 448), 1);
  EXPECT_EQ(scale_for(DataType::Float8E4M3, 449), 0.5f);
  EXPECT_EQ(scale_for(DataType::Float8E4M3, 1), 256);
  EXPECT_EQ(scale_for(DataType::Float8E5M2, 1), 32768);
  EXPECT_EQ(scale_for(DataType::Float8E5M2, 0), 1);
  EXPECT_EQ(scale_for(DataType::Float8E4M3, std::numeric_limits<float>::infinity()), 1);
  EXPECT_EQ(scale_for(DataType::Float8E4M3, 1e-45f), 0x1p108f);
  EXPECT_EQ(scale_for(DataType::Float8E4M3, 3e38f), 0x1p-120f);
}

std::vector<float> rounded(DataType format, std::vector<float> values) {
  const float highest = std::abs(
      *std::max_element(values.begin(), values.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
  const float scale = std::exp2(std::floor(std::log2(largest(format) / highest)));
  round_to(format, values, values, scale);
  return values;
}

std::vector<float> product(const MatrixView& left, const MatrixView& right) {
  std::vector<float> result(static_cast<std::size_t>(left.rows * right.columns));
  matrix_product(left, right, result.data(), right.columns);
  return result;
}

// Returns these columns of `whole`, which has `width` columns.
std::vector<float> columns_of(const std::vector<float>& whole, std::int64_t width, const Range& columns) {
  std::vector<float> part;
  for (std::size_t row = 0; row < whole.size(); row += static_cast<std::size_t>(width)) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row) + columns.begin;
    part.insert(part.end(), begin, begin + columns.count);
  }
  return part;
}

// Makes one value so far from the others that its scale makes them subnormal. A rank that does not hold this value must
// use the same scale.
std::vector<float> with_peak(std::vector<float> values, float peak) {
  values.front() = peak;
  return values;
}

struct Expected {
  std::vector<float> x, dy, weight, y, dx, dw;

  Expected()
      : x(with_peak(normals("x", kRows * kInputs), 1e5f)),
        dy(with_peak(normals("dy", kRows * kOutputs), 3e10f)),
        weight(with_peak(normals("weight", kInputs * kOutputs), -1e5f)) {
    const std::vector<float> x8 = rounded(DataType::Float8E4M3, x);
    const std::vector<float> w8 = rounded(DataType::Float8E4M3, weight);
    const std::vector<float> dy8 = rounded(DataType::Float8E5M2, dy);
    const MatrixView inputs = matrix(x8.data(), kRows, kInputs);
    const MatrixView weights = matrix(w8.data(), kInputs, kOutputs);
    const MatrixView gradients = matrix(dy8.data(), kRows, kOutputs);
    y = product(inputs, weights);
    dx = product(gradients, weights.transposed());
    dw = product(inputs.transposed(), gradients);
  }
};

// Puts the whole weight's values into the part that this rank holds.
void fill(Parameter& parameter, const std::vector<float>& whole) {
  for_each_run(parameter, [&](const Run& run) {
    std::copy_n(whole.begin() + run.global, run.count, parameter.value.begin() + run.local);
  });
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, bool exactly) {
  if (exactly) {
    EXPECT_TRUE(same_bits(a, b));
  } else {
    EXPECT_LT(relative_difference(a, b), kFloat32Bound);
  }
}

class Linear : public testing::TestWithParam<int> {
 protected:
  // Calls `check` on each rank with a layer whose weight is that of Expected. Returns the whole weight's gradient, if
  // `check` has computed it.
  template <typename Layer>
  std::vector<float> on_each_rank(bool divided_rows, const std::function<void(TensorRegion&, Layer&)>& check) {
    std::mutex mutex;
    WholeGradients gradients;
    on_ranks(GetParam(), "tp", [&](TestRank rank) {
      TensorRegion region(rank.group, divided_rows, rank.memory, true);
      ParameterList parameters;
      Layer layer(parameters, {.name = "linear", .inputs = kInputs, .outputs = kOutputs}, region);
      const Storage storage(parameters);
      fill(parameters.all().front(), expected_.weight);
      check(region, layer);
      const std::lock_guard lock(mutex);
      gradients.put(parameters.all().front());
    });
    return gradients.all().at("linear.weight");
  }
  static Range here(const TensorRegion& region, std::int64_t of) {
    return part_of(of, GetParam(), region.group().rank());
  }
  static bool alone() { return GetParam() == 1; }
  const Expected expected_;
};
INSTANTIATE_TEST_SUITE_P(Ranks, Linear, testing::Values(1, 2, 3), testing::PrintToStringParamName());

TEST_P(Linear, ByColumnsMultipliesRoundedFactors) {
  const auto check = [&](TensorRegion& region, ColumnParallelLinear& layer) {
    const Range columns = here(region, kOutputs);
    std::vector<float> y(static_cast<std::size_t>(kRows * columns.count));
    layer.forward(kRows, expected_.x, y);
    EXPECT_TRUE(same_bits(y, columns_of(expected_.y, kOutputs, columns)));
    const std::vector<float> dy = columns_of(expected_.dy, kOutputs, columns);
    std::vector<float> dx(expected_.x.size());
    layer.backward(kRows, dy, dx);
    expect_near(dx, expected_.dx, alone());
    layer.backward_weights(kRows, expected_.x, dy);
  };
  EXPECT_TRUE(same_bits(on_each_rank<ColumnParallelLinear>(false, check), expected_.dw));
}

TEST_P(Linear, ByRowsMultipliesRoundedFactors) {
  const auto check = [&](TensorRegion& region, RowParallelLinear& layer) {
    const std::vector<float> x = columns_of(expected_.x, kInputs, here(region, kInputs));
    std::vector<float> y(expected_.y.size());
    layer.forward(kRows, x, y);
    expect_near(y, expected_.y, alone());
    std::vector<float> dx(x.size());
    layer.backward(kRows, expected_.dy, dx);
    EXPECT_TRUE(same_bits(dx, columns_of(expected_.dx, kInputs, here(region, kInputs))));
    layer.backward_weights(kRows, x, expected_.dy);
  };
  EXPECT_TRUE(same_bits(on_each_rank<RowParallelLinear>(false, check), expected_.dw));
}

// Rows divided between layers are gathered after rounding: they have the same values, at the scale of all rows.
TEST_P(Linear, OfDividedRowsHasTheScaleOfAll) {
  on_each_rank<ColumnParallelLinear>(true, [&](TensorRegion& region, ColumnParallelLinear& layer) {
    const Range columns = here(region, kOutputs);
    std::vector<float> y(static_cast<std::size_t>(kRows * columns.count));
    layer.forward(kRows, rows_of(expected_.x, kInputs, region.held_rows(kRows)), y);
    EXPECT_TRUE(same_bits(y, columns_of(expected_.y, kOutputs, columns)));
  });
}

}  // namespace
}  // namespace wreath::training::test::fp8
