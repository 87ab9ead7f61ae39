// The perf tools' kernels, for every device.
#pragma once

#include "wreath/kernel.hpp"

namespace wreath::perf {

const Kernel& fill_kernel() noexcept;       // FillRun (sequence.hpp)
const Kernel& count_kernel() noexcept;      // CountRun
const Kernel& nothing_kernel() noexcept;    // NothingRun (ping_pong.hpp)
const Kernel& ping_pong_kernel() noexcept;  // PingPongRun

// Whether this build has them for GPUs.
bool has_gpu_kernels() noexcept;

}  // namespace wreath::perf
