// This file declares the threads of the mathematics. A large loop is divided among the calling thread and its own
// helpers.
#pragma once

#include <cstdint>
#include <functional>

namespace wreath::training {

// Sets the number of threads of this process that share a loop; it is 1 until set. Each rank that is a thread of the
// process has its own helpers, so such ranks best leave it at 1. Throws InvalidArgument where count is not 1 to 1024.
void set_math_threads(int count);
int math_threads() noexcept;

// Calls body(begin, end) for near-equal parts of [0, count), where all but the last part are a multiple of `grain`
// long. Up to math_threads() threads work at once, the calling one among them. Returns when all have returned, and
// rethrows the first error. A call from inside a body runs on the thread that makes it. The helpers are kept until the
// calling thread ends, or calls this after the number has changed.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace wreath::training
