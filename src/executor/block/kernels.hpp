// Declares the kernels that run on blocks of threads, for Device::launch.
#pragma once

#include "wreath/kernel.hpp"

namespace wreath {

// Returns run_lanes(), whose argument is a LaneRun (src/executor/block/run_lanes.hpp). A grid has one block a lane.
const Kernel& run_lanes_kernel() noexcept;

// Returns run_handwritten(), whose argument is a LaneRun, too (src/executor/block/run_handwritten.hpp).
const Kernel& run_handwritten_kernel() noexcept;

// Returns run_low_latency(), whose argument is a LowLatencyRun (src/executor/block/low_latency.hpp). A grid has
// low_latency_blocks() blocks.
const Kernel& run_low_latency_kernel() noexcept;

// The number of threads of a block on the host device.
inline constexpr int kHostBlockThreads = 2;
// The number of threads of a block on a GPU.
inline constexpr int kBlockThreads = 512;
// The least number of blocks on a multiprocessor, where each thread has 64 registers. Ranks that share a GPU need room
// for the blocks of all.
inline constexpr int kResidentBlocks = 2;

}  // namespace wreath
