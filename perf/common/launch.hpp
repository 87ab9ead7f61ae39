// --ranks N: starting processes on this host, and never leaving one behind.
#pragma once

#include <string>
#include <vector>

#include "wreath/result.hpp"
#include "wreath/unique_id.hpp"

namespace wreath::perf {

// What a started process is told, through a pipe: never on a command line or in the environment,
// since whoever holds the id may join.
struct Place {
  int process = 0;
  int processes = 1;
  UniqueId id;
};

// Starts `processes` copies of this program with `command` (and a hidden flag that names the pipe),
// passes the first one's stdout on, prefixes the others' stderr with their first rank's number, and
// waits. Returns the exit code of the first that failed, else 0. When one fails the others have 2 s
// to say why; SIGINT, SIGTERM, SIGHUP and this process's death end them all. `threads`: ranks of each.
int launch(int processes, int threads, const std::vector<std::string>& command);

// For programs that start ranks of their own: an error where a launcher started several of this program, each of which
// would start as many, and disturb the others.
Status check_started_once();

// In a started process: its place, read from the pipe.
Result<Place> read_place(int descriptor);

}  // namespace wreath::perf
