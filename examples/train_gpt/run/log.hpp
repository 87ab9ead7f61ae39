// This file writes the progress of a run: a line on the screen, CSV and JSON lines.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "examples/train_gpt/run/command_line.hpp"
#include "examples/train_gpt/train/trainer.hpp"

namespace wreath::gpt {

// A step as the logs show it.
struct LogLine {
  StepResult result;
  std::optional<double> validation;  // measured before the step
};

// Logs on rank 0. Every line is handed to the operating system when its step is done.
class Log {
 public:
  // Opens the files. Their lines about steps before `first` stay, and anything else is removed. The error names the
  // file that cannot be written; it may be the report's, too.
  static Result<std::unique_ptr<Log>> open(const CommandLine& line, std::int64_t first);

  // Writes the line of a step. With `last` it is always on the screen.
  void step(const LogLine& line, bool last);
  // Adds to the files a line of the step before `first` where a file has none, since its writer was lost.
  void complete(const LogLine& line);
  // Closes the files. The error names a file that could not be written to its end.
  Status close();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  struct File {
    std::unique_ptr<std::FILE, Close> stream;
    // The last step that the file has a line of.
    std::int64_t last_step = -1;
    bool lost = false;  // a line, which was reported
  };

  explicit Log(const CommandLine& line);
  static Result<File> open_file(const std::string& path, std::int64_t first);
  static void say_what_is_lost(File& file, const std::string& path);
  std::string scale_text(const StepResult& result) const;
  void show(const StepResult& result, bool last);
  void write_csv(const LogLine& line);
  void write_jsonl(const LogLine& line);
  double tokens_per_second(const StepResult& result) const noexcept;

  CommandLine line_;
  bool terminal_;
  File csv_, jsonl_;
  double seconds_ = 0;  // of the steps shown next
  double communication_seconds_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;  // of the steps of this process
};

}  // namespace wreath::gpt
