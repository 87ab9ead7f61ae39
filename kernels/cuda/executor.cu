// The kernels: the executor, a block per lane, and all_reduces by the protocol LL.
#include <cstdint>

#include "kernels/block/kernels.hpp"
#include "kernels/block/low_latency.hpp"
#include "kernels/block/run_lanes.hpp"

namespace wreath {
namespace {

// One thread's view of its block on a GPU.
class CudaBlock {
 public:
  __device__ explicit CudaBlock(std::byte* shared) : shared_(shared) {}
  __device__ unsigned block() const { return blockIdx.x; }
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned threads() const { return blockDim.x; }
  // Like __syncthreads(), but the threads of a warp may arrive from different places.
  __device__ void barrier() const { asm volatile("barrier.sync 0;" ::: "memory"); }
  __device__ void pause() const { __nanosleep(kPauseNs); }
  __device__ std::uint64_t clock_ns() const {
    std::uint64_t ns = 0;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  }
  __device__ std::byte* shared_memory() const { return shared_; }

 private:
  static constexpr unsigned kPauseNs = 20;
  std::byte* shared_;
};

}  // namespace
}  // namespace wreath

extern "C" __global__ void __launch_bounds__(wreath::kBlockThreads)
    wreath_run_lanes(const __grid_constant__ wreath::LaneRun run) {
  __shared__ alignas(16) unsigned char shared[sizeof(wreath::BlockShared)];
  wreath::CudaBlock block(reinterpret_cast<std::byte*>(shared));
  wreath::run_lanes(block, run);
}

extern "C" __global__ void __launch_bounds__(wreath::kBlockThreads)
    wreath_run_low_latency(const __grid_constant__ wreath::LowLatencyRun run) {
  __shared__ alignas(16) unsigned char shared[sizeof(wreath::LowLatencyShared)];
  wreath::CudaBlock block(reinterpret_cast<std::byte*>(shared));
  wreath::run_low_latency(block, run);
}
