// Runs a few processes to their end, never longer than told, and leaves none behind.
#pragma once

#include <cstdint>
#include <string>

#include "perf/compare/settings.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// How a group of processes ended.
struct End {
  enum class How : std::uint8_t { Exited, Signalled, TimedOut, Interrupted };
  How how = How::Exited;
  int value = 0;  // Exited: the first code that is not 0; Signalled: the signal
};

// Starts all of them in one process group, their output going to `log`, and waits until they have ended, one failed,
// `timeout_ms` have passed or the descriptor `interrupt` (-1: none) is readable; the group is ended then. System where
// one could not be started.
Result<End> run_group(const Start& start, const std::string& log, std::int64_t timeout_ms, int interrupt);

// The same, where only success will do: Timeout after `timeout_ms`,; System when one could not be
// started or exited with another code than 0; both with the log's last lines.
Status run_to_end(const Start& start, const std::string& log, std::int64_t timeout_ms);

}  // namespace wreath::perf
