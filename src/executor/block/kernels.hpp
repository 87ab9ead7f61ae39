// The kernels that run on blocks of threads, for Device::launch.
#pragma once

#include "wreath/kernel.hpp"

namespace wreath {

// run_lanes(), of which the argument is a LaneRun (src/executor/block/run_lanes.hpp): one block a lane.
const Kernel& run_lanes_kernel() noexcept;

// run_handwritten(), of which the argument is a LaneRun, too (src/executor/block/run_handwritten.hpp).
const Kernel& run_handwritten_kernel() noexcept;

// run_low_latency(), of which the argument is a LowLatencyRun (src/executor/block/low_latency.hpp):
// low_latency_blocks() blocks.
const Kernel& run_low_latency_kernel() noexcept;

// Threads of a block on the host device, and on a GPU.
inline constexpr int kHostBlockThreads = 2;
inline constexpr int kBlockThreads = 512;
// Blocks of a multiprocessor at least, each thread having 64 registers: ranks that share a GPU need room for all.
inline constexpr int kResidentBlocks = 2;

}  // namespace wreath
