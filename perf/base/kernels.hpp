// The kernels of the perf tools, for every device.
#pragma once

#include "wreath/kernel.hpp"

namespace wreath::perf {

const Kernel& fill_kernel() noexcept;       // takes a FillRun (sequence.hpp)
const Kernel& count_kernel() noexcept;      // takes a CountRun
const Kernel& nothing_kernel() noexcept;    // takes a NothingRun (ping_pong.hpp)
const Kernel& ping_pong_kernel() noexcept;  // takes a PingPongRun

// Returns whether this build has the kernels for GPUs.
bool has_gpu_kernels() noexcept;

}  // namespace wreath::perf
