// Training runs of a small GPT on meshes of threads, and what of them is compared.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "examples/train_gpt/train/trainer.hpp"

namespace wreath::gpt::test {

// What a run leaves: by step, and of its first step each parameter's gradient, whole.
struct TrainingRun {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  std::map<std::string, std::vector<float>> first_gradients;
  std::map<std::string, std::vector<float>> weights;       // at the end
  std::vector<training::CommunicationAccounting> traffic;  // of each rank, all steps
  std::vector<training::MemoryAccounting> memory;          // ... as it is after the last step
};

// 4 layers, 4 heads, width 32, context 24, a vocabulary that divides by nothing: small enough for hundreds of steps.
TrainOptions small_options();
// A text of 53 letters drawn from a fixed table of transitions, so that there is something to learn.
const Text& small_text();

// Called on each rank before the first step.
using Prepare = std::function<void(Trainer&)>;
// Trains on options.mesh, its ranks being threads. Throws what a rank throws.
TrainingRun train(const TrainOptions& options, std::int64_t steps, const Prepare& prepare = {},
                  const CommunicatorOptions& communicator = {});

// The highest |a - b| / |a| of all steps, and the first step that has it; infinite where one is no number, or where
// the steps are not as many.
struct StepDifference {
  double value = 0;
  std::int64_t step = 0;
};
StepDifference worst_step(const std::vector<double>& a, const std::vector<double>& b);
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);
// The highest Frobenius norm of a difference over that of `a`, of all parameters.
double largest_difference(const std::map<std::string, std::vector<float>>& a,
                          const std::map<std::string, std::vector<float>>& b);

}  // namespace wreath::gpt::test
