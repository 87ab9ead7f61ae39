// The CUDA processor's executor: each block drives one lane of an operation with the same try_step as the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "src/executor/try_step.hpp"
#include "wreath/types.hpp"

namespace wreath {

// Starts `lane_count` blocks on `stream`; block i runs lanes[i] to its end (LaneState::done or a fault) and, where
// it sent memory by reference, until its readers are done. All pointers in `operation` and `lanes` must be
// reachable from the device; all blocks must fit on it at once, since lanes wait for each other. Blocks give
// up between steps once *stop is not zero. Element types have 4 bytes.
cudaError_t launch_lanes(DataType dtype, const OperationState& operation, LaneState* lanes, int lane_count,
                         const std::uint32_t* stop, cudaStream_t stream);

}  // namespace wreath
