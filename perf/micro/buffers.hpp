// Buffer sizes of the micro benchmarks, one for each level of the memory.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

namespace wreath::perf {

inline constexpr std::int64_t kL1Bytes = 4 << 10;
inline constexpr std::int64_t kL2Bytes = 128 << 10;
inline constexpr std::int64_t kDramBytes = 64 << 20;

// Counts the bytes of all iterations, from which the column bytes_per_second is computed.
inline void count_bytes(benchmark::State& state, std::int64_t bytes_per_iteration) {
  state.SetBytesProcessed(state.iterations() * bytes_per_iteration);
}

// These functions register the program's benchmarks. They are called explicitly, without static registration.
void register_reduce();
void register_copies();
void register_fifo();
void register_executor();
void register_steps();
void register_plans();
void register_training();

}  // namespace wreath::perf
