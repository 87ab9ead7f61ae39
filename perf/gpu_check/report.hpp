// What came of the parts: for the terminal, and as JSON (docs/formats.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wreath::perf {

enum class PartResult : std::uint8_t { Passed, Failed, Skipped, NotRun };

struct PartOutcome {
  std::string name;
  std::string sanitizer;  // the tool of compute-sanitizer around it; empty: none
  std::string command = {};
  PartResult result = PartResult::Failed;
  double seconds = 0;
  std::string remark = {};                 // why it is not Passed
  std::string output = {};                 // the end of what it printed, where it failed
  std::vector<std::string> warnings = {};  // of the library, in its log
  std::string measured = {};               // JSON that it left; empty: none
};

// What stands above the parts.
struct GpuMachine {
  std::string host;
  std::string date;
  std::vector<std::string> gpus;  // "NVIDIA H200 (0000:17:00.0)"
  std::string sanitizer;          // its path; empty: none here
};

// One line for a part that is over.
std::string line_of(const PartOutcome& part);
// Of a part that was skipped: what it left about that, else its remark.
std::string reason_of(const PartOutcome& part);
// The last lines: targets beside what was measured, what could not be run and why, counts, and the names of what
// failed.
std::string summary_of(const GpuMachine& machine, const std::vector<PartOutcome>& parts);
std::string json_of(const GpuMachine& machine, const std::vector<PartOutcome>& parts);
// 0, or 1 where a part failed.
int exit_code_of(const std::vector<PartOutcome>& parts);

}  // namespace wreath::perf
