// Threads of programs, which are started together or not at all. The program gets what a thread throws as an error.
#pragma once

#include <exception>
#include <functional>

#include "wreath/result.hpp"

namespace wreath::command_line {

// Turns an exception into an error: a refusal by the system becomes System, and a library's exception keeps its error.
Error error_of(const std::exception& thrown);

// Returns what `body` returns. Turns what it throws into an error.
Status guarded(const std::function<Status()>& body);

// Runs body(0) ... body(count - 1), each on a thread of its own. No thread begins where one cannot be started, since
// the others would wait for ranks that never come. Returns, after all have ended, the error of the first one that
// failed.
Status run_threads(int count, const std::function<Status(int)>& body);

}  // namespace wreath::command_line
