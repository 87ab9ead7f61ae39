// The loss over a vocabulary divided over ranks, and its gradient.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "src/base/planted_fault.hpp"
#include "training/compute/compute.hpp"
#include "training/kernels/kernels.hpp"
#include "training/tensor_parallel/arguments.hpp"
#include "training/tensor_parallel/layers.hpp"

namespace wreath::training {

namespace {

// One row's logits that are held here, padding left out.
using LogitRow = std::span<float>;

float highest_of(LogitRow row) {
  float highest = -std::numeric_limits<float>::infinity();
  for (const float logit : row) highest = std::max(highest, logit);
  return highest;
}

// Logits become exp(logit - highest), whose sum it returns.
float exponentiate(LogitRow row, float highest) {
  double sum = 0;
  for (float& logit : row) {
    logit = std::exp(logit - highest);
    sum += static_cast<double>(logit);
  }
  return static_cast<float>(sum);
}

// A rank's logits, and what its ranks know of each row.
struct Loss {
  std::span<float> logits;
  std::span<const std::int32_t> targets;
  std::size_t width;
  std::size_t used;
  std::int64_t first;
  float gradient_scale;
  std::span<float> highest, sum, of_target;

  std::span<float> row(std::size_t row) const { return logits.subspan(row * width, used); }
  // The target's place in row(); `used` or more where another rank has it.
  std::size_t target(std::size_t row) const { return static_cast<std::size_t>(targets[row] - first); }
};

void find_highest(const Loss& of) {
  for (std::size_t row = 0; row < of.targets.size(); ++row) of.highest[row] = highest_of(of.row(row));
}

void exponentiate(const Loss& of) {
  for (std::size_t row = 0; row < of.targets.size(); ++row) {
    of.of_target[row] = of.target(row) < of.used ? of.row(row)[of.target(row)] : 0.0f;
    of.sum[row] = exponentiate(of.row(row), of.highest[row]);
  }
}

void finish(const Loss& of, std::span<double> losses) {
  for (std::size_t row = 0; row < of.targets.size(); ++row) {
    losses[row] = std::log(static_cast<double>(of.sum[row])) + static_cast<double>(of.highest[row]) -
                  static_cast<double>(of.of_target[row]);
    const float factor = of.gradient_scale / of.sum[row];
    for (float& value : of.row(row)) value *= factor;
    if (of.target(row) < of.used) of.row(row)[of.target(row)] -= of.gradient_scale;
    std::fill_n(of.logits.begin() + static_cast<std::ptrdiff_t>(row * of.width + of.used), of.width - of.used, 0.0f);
  }
}

// The same on a device, in its stream.
class LossOnDevice {
 public:
  LossOnDevice(Compute& on, const Loss& of) : on_(on), of_(of), targets_(on, of.targets) {}
  void find_highest() const { parts(false); }
  void exponentiate() const { parts(true); }
  void finish(std::span<double> losses) const {
    on_.launch(
        CrossEntropyRun{on_.at(of_.logits), targets_.at(), on_.at(of_.highest), on_.at(of_.sum), on_.at(of_.of_target),
                        on_.at(losses), rows(), of_.width, of_.used, of_.first, of_.gradient_scale},
        rows());
  }

 private:
  std::uint64_t rows() const { return of_.targets.size(); }
  void parts(bool exponentials) const {
    on_.launch(CrossEntropyPartsRun{on_.at(of_.logits), targets_.at(), on_.at(of_.highest), on_.at(of_.sum),
                                    on_.at(of_.of_target), rows(), of_.width, of_.used, of_.first, exponentials},
               rows());
  }
  Compute& on_;
  Loss of_;
  OnCompute<std::int32_t> targets_;
};

}  // namespace

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
  const Loss loss{logits,         targets,    static_cast<std::size_t>(rows_here_),
                  used,           first_,     gradient_scale,
                  highest.span(), sum.span(), of_target.span()};
  std::optional<LossOnDevice> there;
  if (Compute* const on = compute_of(logits)) there.emplace(*on, loss);

  Group& group = region_->group();
  there ? there->find_highest() : find_highest(loss);
  group.all_reduce(highest.span(), ReduceOp::Max);
  there ? there->exponentiate() : exponentiate(loss);
  group.all_reduce(sum.span());
  group.all_reduce(of_target.span());
  there ? there->finish(losses.span()) : finish(loss, losses.span());
  return losses;
}

}  // namespace wreath::training
