// Defines the kernels: the executor with a block per lane, the same by handwritten loops, and all_reduces by the
// protocol LL.
#include "src/executor/block/kernels.hpp"
#include "src/executor/block/low_latency.hpp"
#include "src/executor/block/run_handwritten.hpp"
#include "wreath/cuda_block.cuh"

WREATH_CUDA_RESIDENT_KERNEL(wreath_run_lanes, wreath::kBlockThreads, wreath::kResidentBlocks, wreath::LaneRun,
                            sizeof(wreath::BlockShared), wreath::run_lanes)
WREATH_CUDA_RESIDENT_KERNEL(wreath_run_handwritten, wreath::kBlockThreads, wreath::kResidentBlocks, wreath::LaneRun,
                            sizeof(wreath::BlockShared), wreath::run_handwritten)
WREATH_CUDA_RESIDENT_KERNEL(wreath_run_low_latency, wreath::kBlockThreads, wreath::kResidentBlocks,
                            wreath::LowLatencyRun, sizeof(wreath::LowLatencyShared), wreath::run_low_latency)
