// Starts processes on this host for --ranks N, and never leaves one behind.
#pragma once

#include <string>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/unique_id.hpp"

namespace wreath::perf {

// The place that a started process gets through a pipe. It must not stand on a command line or in the environment,
// since everyone who has the id may join.
struct Place {
  int process = 0;
  int processes = 1;
  UniqueId id;
};

// Starts `processes` copies of this program with `command` and a hidden flag that names the pipe. `threads` is the
// number of ranks of each. Passes on the stdout of the first copy, puts the number of their first rank before the
// stderr of the others, and waits. Returns the exit code of the first process that failed, else 0. When one fails, the
// others have 2 s to report the reason. SIGINT, SIGTERM, SIGHUP and the death of this process end them all.
int launch(int processes, int threads, const std::vector<std::string>& command);

// Checks a program that starts ranks of its own. Returns an error where a launcher started several of it: each of them
// would start as many ranks, and disturb the others.
Status check_started_once();

// Reads the place of a started process from the pipe.
Result<Place> read_place(int descriptor);

}  // namespace wreath::perf
