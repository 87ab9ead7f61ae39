// The JSON of gpu_perf: the rows of each part, and the parts that could not run, with the reasons. It is written anew
// after each row, so that a run that is cut short leaves its rows.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "src/json/value.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

class Results {
 public:
  struct Setup {
    std::string device;  // "cuda:0"
    std::string card;    // its name: "NVIDIA H200"
    std::string memory;
    std::string file;     // empty: no file
    double budget_s = 0;  // 0: no limit
  };
  explicit Results(Setup setup);

  // Begins a part, to which all later rows and findings belong.
  void begin(std::string_view part);
  void add(Json row);
  void skip(const std::string& what, const std::string& why);
  // Records that something of the part failed, or gave a wrong result. The exit code is then 1.
  void fail(const std::string& what, const std::string& why);
  // Records the error of a measurement: as skipped where this machine lacks something, else as failed.
  void note(const std::string& what, const Error& error);
  // Returns whether the time is over. Any thread may call it.
  bool late() const;
  std::string late_text() const;
  // Returns false and records that `what` is skipped where the time is over.
  bool time_for(const std::string& what);
  bool failed() const { return failed_; }
  // Returns whether no part has added a row or a failure.
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
