// What gpu_perf leaves as JSON: rows of each part, targets beside what was measured, and what could not be run and why.
// It is written anew after each row, so that a run which is ended leaves what it had.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "src/json/value.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// A number that was promised, beside the measured one.
struct Target {
  std::string what;  // "float32, 8 ranks, 256 MiB"
  double target = 0;
  double measured = 0;
  std::string_view unit;  // "of the copies", "us"
  bool at_most = true;    // else at least
  bool reached() const { return at_most ? measured <= target : measured >= target; }
};

class Results {
 public:
  struct Setup {
    std::string device;  // "cuda:0"
    std::string card;    // its name: "NVIDIA H200"
    std::string memory;
    std::string file;     // empty: none is written
    bool judges = true;   // else targets are shown and not judged: no GPU, or small sizes
    double budget_s = 0;  // 0: any time
  };
  explicit Results(Setup setup);

  // What follows belongs to it.
  void begin(std::string_view part);
  void add(Json row);
  void judge(const Target& target);
  void skip(const std::string& what, const std::string& why);
  // Something of the part failed, or came out wrong: the exit code is 1.
  void fail(const std::string& what, const std::string& why);
  // An error of what was to be measured: skipped where this machine lacks something, else failed.
  void note(const std::string& what, const Error& error);
  // Whether the time is up. Any thread.
  bool late() const;
  std::string late_text() const;
  // False, and it is skipped, where the time is up.
  bool time_for(const std::string& what);
  bool failed() const { return failed_; }
  // Whether rows, targets or failures came of any part.
  bool empty() const { return empty_; }
  Status write() const;

 private:
  void list(const char* key, const std::string& what, const std::string& why);

  Setup setup_;
  std::string part_;
  Json json_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool failed_ = false;
  bool empty_ = true;
};

}  // namespace wreath::perf
