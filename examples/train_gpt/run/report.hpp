// This file declares the report of a run: one HTML file with its curves, and the work, communication and memory of each
// rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/train/trainer.hpp"

namespace wreath::gpt {

struct ValidationPoint {
  std::int64_t step = 0;
  double loss = 0;
};

// The results that rank 0 saw.
struct History {
  std::vector<StepResult> steps;
  std::vector<ValidationPoint> validation;
};

// Writes the report. Every rank calls it, after at least one step; rank 0 writes `path`. The error is that the file
// cannot be written.
Status write_report(const std::string& path, const CommandLine& line, const History& history, Trainer& trainer,
                    Communicator& world);

}  // namespace wreath::gpt
