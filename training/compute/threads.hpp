// Threads of the mathematics: a large loop is divided among the calling thread and helpers of its own.
#pragma once

#include <cstdint>
#include <functional>

namespace wreath::training {

// Threads that share a loop, of this process: 1 until set. Ranks that are threads of one process have helpers each, so
// they are best left at 1. Throws InvalidArgument where count is not 1 to 1024.
void set_math_threads(int count);
int math_threads() noexcept;

// Calls body(begin, end) for near-equal parts of [0, count), all but the last a multiple of `grain` long, at once on up
// to math_threads() threads, the calling one among them; returns when all have returned, and rethrows the first error.
// Inside body it runs on the thread that calls it. The helpers are kept until the calling thread ends, or calls this
// after the number has changed.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace wreath::training
