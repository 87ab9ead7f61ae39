// A communicator's trace has its calls and the steps of its lanes, as Chrome's trace JSON (chrome://tracing, Perfetto).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/executor/trace.hpp"
#include "wreath/recording.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Trace {
 public:
  // Makes a trace that write() puts into DIRECTORY/wreath-trace-COMMUNICATOR-RANK.json.
  Trace(std::string directory, std::uint64_t communicator, Rank rank, std::string identity);
  StepTrace& steps() { return steps_; }
  void begin_call(const CallRecord& record, std::int64_t now_ns);
  // Ends the call that began last.
  void end_call(std::int64_t now_ns);
  // Writes one process per rank, with a row of calls and a row per lane. Calls that have not ended end now. A System
  // error names the file. The file is replaced at once or not at all.
  Result<std::string> write(std::int64_t now_ns) const;

 private:
  struct CallEvent {
    std::uint64_t number;
    std::string text;
    std::string algorithm;
    std::int64_t begin_ns;
    std::int64_t end_ns = 0;  // 0: it is not over
  };
  static constexpr std::size_t kMaximumCalls = std::size_t{1} << 18;

  std::string path_;
  Rank rank_;
  std::string identity_;
  StepTrace steps_;
  std::vector<CallEvent> calls_;
};

}  // namespace wreath
