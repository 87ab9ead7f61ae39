// A communicator's trace: its calls and the steps of its lanes, as Chrome's trace JSON (chrome://tracing, Perfetto).
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
  // To be written to DIRECTORY/wreath-trace-COMMUNICATOR-RANK.json.
  Trace(std::string directory, std::uint64_t communicator, Rank rank, std::string identity);
  StepTrace& steps() { return steps_; }
  void begin_call(const CallRecord& record, std::int64_t now_ns);
  // The one that was begun last.
  void end_call(std::int64_t now_ns);
  // One process per rank, a row of calls and a row per lane. Where calls have not ended, they end now. System names the
  // file; what is there is replaced at once or not at all.
  Result<std::string> write(std::int64_t now_ns) const;

 private:
  struct CallEvent {
    std::uint64_t number;
    std::string text;
    std::string algorithm;
    std::int64_t begin_ns;
    std::int64_t end_ns = 0;  // 0: not over
  };
  static constexpr std::size_t kMaximumCalls = std::size_t{1} << 18;

  std::string path_;
  Rank rank_;
  std::string identity_;
  StepTrace steps_;
  std::vector<CallEvent> calls_;
};

}  // namespace wreath
