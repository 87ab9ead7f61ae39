// Buffer sizes of the micro benchmarks: one per level of the memory.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

namespace wreath::perf {

inline constexpr std::int64_t kL1Bytes = 4 << 10;
inline constexpr std::int64_t kL2Bytes = 128 << 10;
inline constexpr std::int64_t kDramBytes = 64 << 20;

// Bytes of all iterations: what the bytes_per_second column divides.
inline void count_bytes(benchmark::State& state, std::int64_t bytes_per_iteration) {
  state.SetBytesProcessed(state.iterations() * bytes_per_iteration);
}

// Makes the program's benchmarks known: explicit calls, no static registration.
void register_reduce();
void register_copies();
void register_fifo();
void register_executor();
void register_steps();
void register_plans();
void register_training();

}  // namespace wreath::perf
