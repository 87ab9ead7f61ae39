// Runs a few processes to their end, within a time limit, and leaves none behind.
#pragma once

#include <cstdint>
#include <string>

#include "perf/compare/settings.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// The end of a group of processes.
struct End {
  enum class How : std::uint8_t { Exited, Signalled, TimedOut, Interrupted };
  How how = How::Exited;
  // The first exit code that is not 0 for Exited, and the signal for Signalled.
  int value = 0;
};

// Starts all commands in one process group, with their output in `log`. Waits until all have ended, one has failed,
// `timeout_ms` have passed or the descriptor `interrupt` (-1: none) is readable. Then it ends the group. Returns System
// where a process could not be started.
Result<End> run_group(const Start& start, const std::string& log, std::int64_t timeout_ms, int interrupt);

// Runs a group that must succeed. Returns Timeout after `timeout_ms`, and System where a process could not be started,
// exited with another code than 0 or was ended by a signal. The errors of processes that ran have the last lines of the
// log.
Status run_to_end(const Start& start, const std::string& log, std::int64_t timeout_ms);

}  // namespace wreath::perf
