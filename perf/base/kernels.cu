// The kernels of the perf tools for GPUs.
#include "perf/base/ping_pong.hpp"
#include "perf/base/sequence.hpp"
#include "wreath/cuda_block.cuh"

WREATH_CUDA_KERNEL(wreath_perf_fill, wreath::perf::kSequenceThreads, wreath::perf::FillRun, 1, wreath::perf::run_fill)
WREATH_CUDA_KERNEL(wreath_perf_count, wreath::perf::kSequenceThreads, wreath::perf::CountRun,
                   wreath::perf::kSequenceThreads * sizeof(std::uint64_t), wreath::perf::run_count)
WREATH_CUDA_KERNEL(wreath_perf_nothing, wreath::perf::kSequenceThreads, wreath::perf::NothingRun, 1,
                   wreath::perf::run_nothing)
WREATH_CUDA_KERNEL(wreath_perf_ping_pong, 1, wreath::perf::PingPongRun, 1, wreath::perf::run_ping_pong)
