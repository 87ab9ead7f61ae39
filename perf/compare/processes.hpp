// Runs a few processes to their end, never longer than told, and leaves none behind.
#pragma once

#include <cstdint>
#include <string>

#include "perf/compare/settings.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// Starts all of them in one process group, their output going to `log`, and waits. Timeout after `timeout_ms`, when the
// group is ended; System when one could not be started or exited with another code than 0, with the log's last lines.
Status run_to_end(const Start& start, const std::string& log, std::int64_t timeout_ms);

}  // namespace wreath::perf
