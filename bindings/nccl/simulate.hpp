// Estimates how long the calls of a group would take, by the simulator.
#pragma once

#include <vector>

#include "bindings/nccl/group.hpp"

namespace wreath::nccl {

// Checks what `info` says of itself and writes its estimatedTime, in microseconds. The time is of the communicator that
// takes longest.
ncclResult_t estimate(const std::vector<Request>& requests, ncclSimInfo_t* info);

}  // namespace wreath::nccl
