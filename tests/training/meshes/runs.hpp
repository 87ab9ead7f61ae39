// Runs the training of a small GPT on meshes of threads, and compares the results of runs.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "examples/train_gpt/train/trainer.hpp"

namespace wreath::gpt::test {

// The results of a run: values by step, and each parameter's whole gradient in the first step.
struct TrainingRun {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  std::map<std::string, std::vector<float>> first_gradients;
  std::map<std::string, std::vector<float>> weights;       // at the end
  std::vector<training::CommunicationAccounting> traffic;  // of each rank, all steps
  std::vector<training::MemoryAccounting> memory;          // of each rank, after the last step
};

// Returns 4 layers, 4 heads, width 32, context 24 and a vocabulary that divides by nothing. This is small enough for
// hundreds of steps.
TrainOptions small_options();
// Returns a text of 53 letters drawn from a fixed table of transitions, so that there is something to learn.
const Text& small_text();

// A function that is called on each rank before the first step.
using Prepare = std::function<void(Trainer&)>;
// Trains on options.mesh with ranks that are threads. Throws what a rank throws.
TrainingRun train(const TrainOptions& options, std::int64_t steps, const Prepare& prepare = {},
                  const CommunicatorOptions& communicator = {});

// The highest |a - b| / |a| of all steps, and the first step that has it. The value is infinite where one is no number,
// or where the numbers of steps differ.
struct StepDifference {
  double value = 0;
  std::int64_t step = 0;
};
StepDifference worst_step(const std::vector<double>& a, const std::vector<double>& b);
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);
// Returns the highest Frobenius norm of a difference over that of `a`, of all parameters.
double largest_difference(const std::map<std::string, std::vector<float>>& a,
                          const std::map<std::string, std::vector<float>>& b);

}  // namespace wreath::gpt::test
