// Threads of programs: started together or not at all, and what is thrown in one reaches the program as an error.
#pragma once

#include <exception>
#include <functional>

#include "wreath/result.hpp"

namespace wreath::command_line {

// Turns an exception into an error: the system's refusals are System, a library's error is itself.
Error error_of(const std::exception& thrown);

// Returns what `body` returns, or what it throws, as an error.
Status guarded(const std::function<Status()>& body);

// body(0) ... body(count - 1), each on a thread of its own. All begin together, or none where one cannot be started: a
// thread would wait for ranks that never come. Returns what the first that failed returned or threw, when all have
// ended.
Status run_threads(int count, const std::function<Status(int)>& body);

}  // namespace wreath::command_line
