// The kernels: the executor, a block per lane, the same by loops written by hand, all_reduces by the protocol LL, and
// layers of a transformer.
#include <cstdint>

#include "kernels/block/kernels.hpp"
#include "kernels/block/layers.hpp"
#include "kernels/block/low_latency.hpp"
#include "kernels/block/run_straight.hpp"

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
    wreath_run_straight(const __grid_constant__ wreath::LaneRun run) {
  __shared__ alignas(16) unsigned char shared[sizeof(wreath::BlockShared)];
  wreath::CudaBlock block(reinterpret_cast<std::byte*>(shared));
  wreath::run_straight(block, run);
}

extern "C" __global__ void __launch_bounds__(wreath::kBlockThreads)
    wreath_run_low_latency(const __grid_constant__ wreath::LowLatencyRun run) {
  __shared__ alignas(16) unsigned char shared[sizeof(wreath::LowLatencyShared)];
  wreath::CudaBlock block(reinterpret_cast<std::byte*>(shared));
  wreath::run_low_latency(block, run);
}

// The kernel wreath_NAME: run_NAME() of layers.hpp.
#define WREATH_LAYER_KERNEL(name, Run)                                        \
  extern "C" __global__ void __launch_bounds__(wreath::kMostLayerThreads)     \
      wreath_##name(const __grid_constant__ wreath::Run run) {                \
    __shared__ alignas(16) unsigned char shared[sizeof(wreath::LayerShared)]; \
    wreath::CudaBlock block(reinterpret_cast<std::byte*>(shared));            \
    wreath::run_##name(block, run);                                           \
  }
WREATH_LAYER_KERNEL(layer_norm, LayerNormRun)
WREATH_LAYER_KERNEL(layer_norm_backward, LayerNormRun)
WREATH_LAYER_KERNEL(layer_norm_backward_weights, LayerNormRun)
WREATH_LAYER_KERNEL(gelu, GeluRun)
WREATH_LAYER_KERNEL(cross_entropy, CrossEntropyRun)
WREATH_LAYER_KERNEL(adamw, AdamWRun)
