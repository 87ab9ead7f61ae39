// The CUDA processor's executor: each block drives one lane of an operation with the same try_step as the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/kernels.hpp"
#include "src/executor/try_step.hpp"

namespace wreath {

// Starts `lane_count` blocks on `stream`; block i runs lanes[i] to its end (LaneState::done or a fault) and, where
// it sent memory by reference, until its readers are done. `operation` is complete: call, plan and conversions. All its
// pointers and `lanes` must be reachable from the device, and aligned to elements; all blocks must fit on it at once,
// since lanes wait for each other. Blocks give up between steps once *stop is not zero. Of `arithmetic`, combine is not
// used.
cudaError_t launch_lanes(const Arithmetic& arithmetic, const OperationState& operation, LaneState* lanes,
                         int lane_count, const std::uint32_t* stop, cudaStream_t stream);

}  // namespace wreath
