// What the user asks of train_gpt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/train_gpt/train/options.hpp"

namespace wreath::gpt {

struct CommandLine {
  TrainOptions train;
  std::string device;  // "cuda", "cuda:N", "host"; empty: the CPU (run/device.hpp)
  std::string data;    // a text; empty: the project's own sources
  std::string csv;     // files; empty: none
  std::string jsonl;
  std::string html;
  std::string checkpoint;       // a folder
  int checkpoint_writers = 8;   // ranks that write at once
  std::int64_t save_every = 0;  // steps; 0: at the end alone
  bool resume = false;          // from the folder's latest checkpoint
  std::int64_t validate_every = 250;
  bool validate_at_end = true;
  std::int64_t validation_windows = 240;  // within the run; at its end all of them count
  std::int64_t log_every = 10;
  int sample = 300;  // letters at the end
};

// Prints help or what is wrong; the exit code then, nullopt to go on.
std::optional<int> parse(int argc, char** argv, CommandLine& into);

}  // namespace wreath::gpt
