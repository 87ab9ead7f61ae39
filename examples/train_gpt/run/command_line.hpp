// This file declares the user's options of train_gpt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "examples/train_gpt/train/options.hpp"

namespace wreath::gpt {

struct CommandLine {
  TrainOptions train;
  // The device is "cuda", "cuda:N" or "host"; empty means the CPU (run/device.hpp).
  std::string device;
  // The file of a text; empty means the project's own sources.
  std::string data;
  std::string csv;  // files; empty: none
  std::string jsonl;
  std::string html;
  std::string checkpoint;       // a folder
  int checkpoint_writers = 8;   // ranks that write at once
  std::int64_t save_every = 0;  // steps; 0: at the end alone
  bool resume = false;          // from the folder's latest checkpoint
  std::int64_t validate_every = 250;
  bool validate_at_end = true;
  // So many windows are validated within the run. At its end all of them count.
  std::int64_t validation_windows = 240;
  std::int64_t log_every = 10;
  int sample = 300;  // letters at the end
};

// Parses the arguments. Returns the exit code where it printed help or an error, and nullopt where the program goes on.
std::optional<int> parse(int argc, char** argv, CommandLine& into);

}  // namespace wreath::gpt
