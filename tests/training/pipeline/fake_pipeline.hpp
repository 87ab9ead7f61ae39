// A stage with arithmetic that can be followed by hand, and pipelines of such stages, with ranks as threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "training/compute/memory.hpp"
#include "training/pipeline/pipeline.hpp"

namespace wreath::training::test {

struct StageTimes {
  std::chrono::microseconds forward{0};
  std::chrono::microseconds backward_input{0};
  std::chrono::microseconds backward_weights{0};
};

// A stage that computes y[i] = a x[i] + micro_batch, with one weight a. The first stage makes x, and the last one the
// gradient of y. The gradient of a is a sum of numbers that are no round binary fractions, so it depends on the order
// of micro-batches.
class FakeStage : public Stage {
 public:
  FakeStage(int stage, int stages, int micro_batches, std::size_t count, const StageTimes& times = {});
  std::size_t boundary_count() const override { return count_; }
  void forward(int micro_batch, std::span<const float> input, std::span<float> output) override;
  void backward(int micro_batch, std::span<const float> output_gradient, std::span<float> input_gradient) override;
  void backward_weights(int micro_batch) override;

  float weight_gradient() const { return weight_gradient_; }
  float loss() const { return loss_; }
  // Returns the number of micro-batches for which something is kept.
  int kept() const;
  // A function that runs before each forward.
  std::function<void(int micro_batch)> on_forward;

 private:
  int stage_, stages_;
  std::size_t count_;
  StageTimes times_;
  float weight_;
  float weight_gradient_ = 0;
  float loss_ = 0;
  std::vector<std::vector<float>> inputs_, gradients_;  // by micro-batch
};

// The results of all ranks at the end of their steps.
struct PipelineOutcome {
  std::vector<float> weight_gradients;  // of each stage
  float loss = 0;                       // of the last stage
  std::uint64_t sent_bytes = 0, received_bytes = 0, other_bytes = 0;
  std::vector<std::vector<Timeline>> timelines;  // of each step
  std::size_t bytes_left = 0;                    // of Activations
  int kept = 0;
};

struct Run {
  std::size_t count = 5;
  int steps = 1;
  StageTimes times;
  CommunicatorOptions options;
};

// Runs the pipeline on schedule.ranks threads. Throws the error of any of them.
PipelineOutcome run_pipeline(const PipelineSchedule& schedule, const Run& run = {});

// Runs `body` on `ranks` threads. The k-th of as many local communicators becomes the group of the k-th thread.
void with_groups(int ranks, const CommunicatorOptions& options,
                 const std::function<void(Group& group, CommunicationAccounting& accounting)>& body);

}  // namespace wreath::training::test
