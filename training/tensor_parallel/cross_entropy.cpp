// This file computes the loss over a vocabulary divided over ranks, and its gradient.
#include "training/compute/cross_entropy.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "src/base/planted_fault.hpp"
#include "training/compute/compute.hpp"
#include "training/parameters/arguments.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training {

double sum_of(const Buffer<double>& losses) {
  std::vector<double> here(losses.size());
  copy<double>(losses.span(), here);
  return std::accumulate(here.begin(), here.end(), 0.0);
}

Buffer<double> VocabParallelEmbedding::cross_entropy(std::span<float> logits, std::span<const std::int32_t> targets,
                                                     float gradient_scale) const {
  expect_indices(table_->name, "the target", targets, vocabulary_);
  expect_size(table_->name, "an activation of logits", logits.size(),
              static_cast<std::int64_t>(targets.size()) * rows_here_);
  const auto values_of_rows = [&] {
    return Buffer<float>(region_->memory(), MemoryTag::Workspace, targets.size(), Contents::Undefined);
  };
  const Buffer<float> highest = values_of_rows();
  const Buffer<float> sum = values_of_rows();
  const Buffer<float> of_target = values_of_rows();
  Buffer<double> losses(region_->memory(), MemoryTag::Workspace, targets.size(), Contents::Undefined);
  const auto used = static_cast<std::size_t>(
      std::clamp<std::int64_t>(planted_fault(19) ? rows_here_ : vocabulary_ - first_, 0, rows_here_));
  const CrossEntropy loss({logits, targets, static_cast<std::size_t>(rows_here_), used, first_, gradient_scale,
                           highest.span(), sum.span(), of_target.span()});
  Group& group = region_->group();
  loss.find_highest();
  group.all_reduce(highest.span(), ReduceOp::Max);
  loss.exponentiate();
  group.all_reduce(sum.span());
  group.all_reduce(of_target.span());
  loss.finish(losses.span());
  return losses;
}

}  // namespace wreath::training
