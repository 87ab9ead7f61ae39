// The kernels that run on blocks of threads, for Device::launch.
#pragma once

#include "wreath/kernel.hpp"

namespace wreath {

// run_lanes(), of which the argument is a LaneRun (kernels/block/run_lanes.hpp): one block a lane.
const Kernel& run_lanes_kernel() noexcept;

// run_straight(), of which the argument is a LaneRun, too (kernels/block/run_straight.hpp).
const Kernel& run_straight_kernel() noexcept;

// run_low_latency(), of which the argument is a LowLatencyRun (kernels/block/low_latency.hpp): low_latency_blocks()
// blocks.
const Kernel& run_low_latency_kernel() noexcept;

// Layers (kernels/block/layers.hpp) on any number of blocks, of kMostLayerThreads threads at most; the argument says
// how many blocks. Of a LayerNormRun, a LayerNormRun, a LayerNormRun, a GeluRun, a CrossEntropyRun and an AdamWRun.
const Kernel& layer_norm_kernel() noexcept;
const Kernel& layer_norm_backward_kernel() noexcept;
const Kernel& layer_norm_backward_weights_kernel() noexcept;
const Kernel& gelu_kernel() noexcept;
const Kernel& cross_entropy_kernel() noexcept;
const Kernel& adamw_kernel() noexcept;

// Threads of a block on a GPU.
inline constexpr int kBlockThreads = 512;

}  // namespace wreath
