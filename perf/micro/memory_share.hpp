// Measures kernels beside their memory: the bytes per second, and their share of the rate of copies or sums there.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>

#include "perf/micro/buffers.hpp"

namespace wreath::perf {

// The yardstick of a kernel: the fastest copy, or a sum of two float32 vectors.
enum class Yardstick { Copy, Reduce };

// Returns the GB/s (1e9) that one thread reads and writes, whose buffers take `working_set_bytes` together. It is
// measured once in a run.
double memory_gbps(Yardstick yardstick, std::size_t working_set_bytes);

// Returns the time for which this thread has computed, without the time of others on its core. It is the clock of
// bytes_per_second.
double thread_ns();

// Times kernel(), which reads and writes `bytes` bytes in buffers of that size. The columns are bytes_per_second and
// `of_memory`, which is 1 where the kernel is as fast as the yardstick.
template <typename Kernel>
void run_kernel(benchmark::State& state, std::size_t bytes, Yardstick yardstick, Kernel kernel) {
  const double gbps = memory_gbps(yardstick, bytes);
  const double start = thread_ns();
  for (auto _ : state) {
    kernel();
    benchmark::ClobberMemory();
  }
  const double elapsed_ns = thread_ns() - start;
  count_bytes(state, static_cast<std::int64_t>(bytes));
  state.counters["of_memory"] =
      static_cast<double>(state.iterations()) * static_cast<double>(bytes) / elapsed_ns / gbps;
}

}  // namespace wreath::perf
