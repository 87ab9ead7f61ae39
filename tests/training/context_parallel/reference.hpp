// Computes causal attention plainly in float64, and its gradient by finite differences.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/context_parallel/attention.hpp"

namespace wreath::training::test {

// The reference of whole sequences; `qkv` has the shape [sequences][length][3][heads * head_size].
class AttentionReference {
 public:
  AttentionReference(const AttentionBatch& batch, const std::vector<float>& qkv)
      : batch_(batch), width_(batch.shape.heads * batch.shape.head_size), qkv_(qkv.begin(), qkv.end()) {}

  std::vector<float> output() const {
    std::vector<float> output;
    for_each_query([&](std::int64_t sequence, std::int64_t place, std::int64_t head) {
      for (const double value : attend(sequence, place, head).output) output.push_back(static_cast<float>(value));
    });
    return output;
  }
  std::vector<float> log_sum_exp() const {
    std::vector<float> sums;
    for_each_query([&](std::int64_t sequence, std::int64_t place, std::int64_t head) {
      sums.push_back(static_cast<float>(attend(sequence, place, head).log_sum_exp));
    });
    return sums;
  }
  // Returns the gradient of the sum of output * output_gradient, by central differences at every point.
  std::vector<float> qkv_gradient(const std::vector<float>& output_gradient) {
    constexpr double kStep = 1e-4;
    std::vector<float> gradient;
    for (std::size_t i = 0; i < qkv_.size(); ++i) {
      const double value = qkv_[i];
      qkv_[i] = value + kStep;
      const double above = objective(i, output_gradient);
      qkv_[i] = value - kStep;
      const double below = objective(i, output_gradient);
      qkv_[i] = value;
      gradient.push_back(static_cast<float>((above - below) / (2 * kStep)));
    }
    return gradient;
  }

 private:
  struct Attended {
    std::vector<double> output;
    double log_sum_exp;
  };

  template <typename Visit>
  void for_each_query(const Visit& visit) const {
    for (std::int64_t sequence = 0; sequence < batch_.sequences; ++sequence) {
      for (std::int64_t place = 0; place < batch_.length; ++place) {
        for (std::int64_t head = 0; head < batch_.shape.heads; ++head) visit(sequence, place, head);
      }
    }
  }

  const double* at(std::int64_t sequence, std::int64_t place, std::int64_t part, std::int64_t head) const {
    return qkv_.data() + ((sequence * batch_.length + place) * 3 + part) * width_ + head * batch_.shape.head_size;
  }

  double kept(std::int64_t sequence, std::int64_t place, std::int64_t key, std::int64_t head) const {
    const AttentionDropout& dropout = batch_.shape.dropout;
    if (dropout.share == 0) return 1;
    const std::int64_t row = (dropout.sequence + sequence) * dropout.heads + dropout.first_head + head;
    const std::int64_t index = (row * dropout.length + place) * dropout.length + key;
    return dropout.stream->uniform(static_cast<std::uint64_t>(index)) < dropout.share ? 0
                                                                                      : 1 / (1 - double{dropout.share});
  }

  Attended attend(std::int64_t sequence, std::int64_t place, std::int64_t head) const {
    const std::int64_t size = batch_.shape.head_size;
    Attended attended{std::vector<double>(static_cast<std::size_t>(size)), 0};
    double sum = 0;
    for (std::int64_t key = 0; key <= place; ++key) {
      double score = 0;
      for (std::int64_t i = 0; i < size; ++i) score += at(sequence, place, 0, head)[i] * at(sequence, key, 1, head)[i];
      const double weight = std::exp(score / std::sqrt(static_cast<double>(size)));
      sum += weight;
      for (std::int64_t i = 0; i < size; ++i) {
        attended.output[static_cast<std::size_t>(i)] +=
            kept(sequence, place, key, head) * weight * at(sequence, key, 2, head)[i];
      }
    }
    for (double& value : attended.output) value /= sum;
    attended.log_sum_exp = std::log(sum);
    return attended;
  }

  // Returns the share of the sum that depends on element `i` of qkv: that of its sequence and head.
  double objective(std::size_t i, const std::vector<float>& output_gradient) const {
    const auto element = static_cast<std::int64_t>(i);
    const std::int64_t sequence = element / (batch_.length * 3 * width_);
    const std::int64_t head = element % width_ / batch_.shape.head_size;
    double sum = 0;
    for (std::int64_t place = 0; place < batch_.length; ++place) {
      const std::vector<double> output = attend(sequence, place, head).output;
      const auto first =
          static_cast<std::size_t>((sequence * batch_.length + place) * width_ + head * batch_.shape.head_size);
      for (std::size_t j = 0; j < output.size(); ++j) sum += output[j] * double{output_gradient[first + j]};
    }
    return sum;
  }

  AttentionBatch batch_;
  std::int64_t width_;
  std::vector<double> qkv_;
};

}  // namespace wreath::training::test
