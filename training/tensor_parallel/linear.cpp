// This file has linear layers divided by outputs or by inputs.
#include <fmt/format.h>

#include <utility>

#include "training/compute/layers.hpp"
#include "training/parameters/arguments.hpp"
#include "training/tensor_parallel/fp8_factors.hpp"
#include "training/tensor_parallel/layers.hpp"
#include "training/tensor_parallel/region.hpp"

namespace wreath::training {

namespace {

// Returns the part of `count` outputs or inputs that this rank holds.
std::vector<Range> held_ranges(const LinearOptions& options, std::int64_t count, const TensorRegion& region) {
  if (options.inputs < 1 || options.outputs < 1) {
    refuse(options.name,
           fmt::format("inputs and outputs must be at least 1, but are {} and {}", options.inputs, options.outputs));
  }
  if (options.ranges.empty()) return {part_of(count, region.group().ranks(), region.group().rank())};
  for (const Range& range : options.ranges) {
    if (range.begin >= 0 && range.count >= 0 && range.begin + range.count <= count) continue;
    refuse(options.name, fmt::format("a range of {} from {} on is not inside of {}", range.count, range.begin, count));
  }
  return options.ranges;
}

std::int64_t sum_of(const std::vector<Range>& ranges) {
  std::int64_t sum = 0;
  for (const Range& range : ranges) sum += range.count;
  return sum;
}

Parameter* add_weight(ParameterList& parameters, const LinearOptions& options, int sharded_axis,
                      std::vector<Range> ranges) {
  Parameter weight;
  weight.name = options.name + ".weight";
  weight.shape = {options.inputs, options.outputs};
  weight.sharded_axis = sharded_axis;
  weight.ranges = std::move(ranges);
  weight.initial_deviation = options.initial_deviation;
  weight.decays = true;
  weight.unit = options.unit;
  return &parameters.add(std::move(weight));
}

// Adds a bias that is divided by `ranges` where there are some, and otherwise held by every rank.
Parameter* add_bias(ParameterList& parameters, const LinearOptions& options, std::vector<Range> ranges) {
  if (!options.bias) return nullptr;
  Parameter bias;
  bias.name = options.name + ".bias";
  bias.shape = {options.outputs};
  bias.sharded_axis = ranges.empty() ? -1 : 0;
  bias.ranges = std::move(ranges);
  bias.unit = options.unit;
  return &parameters.add(std::move(bias));
}

void add_bias_to(std::span<float> y, const Parameter* bias) {
  if (bias == nullptr) return;
  bias_forward(y, bias->value_here());
}

void add_bias_gradient(std::span<const float> y_gradient, Parameter* bias) {
  if (bias == nullptr) return;
  bias_backward_weights(y_gradient, bias->gradient_here());
}

// ---- products, whose factors may be rounded ----

// Multiplies an activation, or its gradient, with the weight.
class WeightProduct {
 public:
  WeightProduct(const TensorRegion& region, const Fp8Tensor& x, const Parameter& weight)
      : weight_(weight_matrix(weight, weight.local_shape().front(), weight.local_shape().back())),
        factors_(region, x, {weight.value, DataType::Float8E4M3}) {
    weight_.data = factors_.right().data();
  }
  std::span<const float> x() const noexcept { return factors_.left(); }
  const MatrixView& weight() const noexcept { return weight_; }

 private:
  MatrixView weight_;
  Fp8Factors factors_;
};

Fp8Tensor input(std::span<const float> x) { return {x, DataType::Float8E4M3}; }
Fp8Tensor gradient(std::span<const float> y_gradient) { return {y_gradient, DataType::Float8E5M2}; }

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(ParameterList& parameters, const LinearOptions& options,
                                           TensorRegion& region)
    : region_(&region), inputs_(options.inputs) {
  const std::vector<Range> ranges = held_ranges(options, options.outputs, region);
  outputs_here_ = sum_of(ranges);
  weight_ = add_weight(parameters, options, 1, ranges);
  bias_ = add_bias(parameters, options, ranges);
}

void ColumnParallelLinear::forward(std::int64_t rows, std::span<const float> x, std::span<float> y) const {
  const WeightProduct product(*region_, input(x), *weight_);
  product_of_whole_rows(*region_, weight_->name, rows, product.x(), product.weight(), y);
  add_bias_to(y, bias_);
}

void ColumnParallelLinear::backward(std::int64_t rows, std::span<const float> y_gradient,
                                    std::span<float> x_gradient) const {
  const WeightProduct product(*region_, gradient(y_gradient), *weight_);
  sum_of_products(*region_, weight_->name, rows, product.x(), product.weight().transposed(), x_gradient);
}

void ColumnParallelLinear::backward_weights(std::int64_t rows, std::span<const float> x,
                                            std::span<const float> y_gradient) {
  const Fp8Factors factors(*region_, input(x), gradient(y_gradient));
  const WholeRows whole(*region_, {weight_->name, rows, inputs_}, factors.left());
  add_weight_gradient(rows, whole.span(), factors.right(), *weight_);
  add_bias_gradient(y_gradient, bias_);
}

RowParallelLinear::RowParallelLinear(ParameterList& parameters, const LinearOptions& options, TensorRegion& region)
    : region_(&region), outputs_(options.outputs) {
  const std::vector<Range> ranges = held_ranges(options, options.inputs, region);
  inputs_here_ = sum_of(ranges);
  weight_ = add_weight(parameters, options, 0, ranges);
  bias_ = add_bias(parameters, options, {});
  if (bias_ != nullptr) bias_->gradient_is_partial = region.sequence_parallel();
}

void RowParallelLinear::forward(std::int64_t rows, std::span<const float> x, std::span<float> y) const {
  const WeightProduct product(*region_, input(x), *weight_);
  sum_of_products(*region_, weight_->name, rows, product.x(), product.weight(), y);
  add_bias_to(y, bias_);
}

void RowParallelLinear::backward(std::int64_t rows, std::span<const float> y_gradient,
                                 std::span<float> x_gradient) const {
  const WeightProduct product(*region_, gradient(y_gradient), *weight_);
  product_of_whole_rows(*region_, weight_->name, rows, product.x(), product.weight().transposed(), x_gradient);
}

void RowParallelLinear::backward_weights(std::int64_t rows, std::span<const float> x,
                                         std::span<const float> y_gradient) {
  const Fp8Factors factors(*region_, input(x), gradient(y_gradient));
  const WholeRows whole(*region_, {weight_->name, rows, outputs_}, factors.right());
  add_weight_gradient(rows, factors.left(), whole.span(), *weight_);
  add_bias_gradient(y_gradient, bias_);
}

}  // namespace wreath::training
