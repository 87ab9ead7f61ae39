// Gives one thread its view of its block on a GPU, as HostBlock does on the host. nvcc compiles this file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath {

class CudaBlock {
 public:
  static constexpr unsigned kTogether = 32;
  // `shared` is the block's shared memory, aligned as the kernel needs it.
  __device__ explicit CudaBlock(std::byte* shared) : shared_(shared) {}
  __device__ unsigned block() const { return blockIdx.x; }
  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned threads() const { return blockDim.x; }
  // Waits like __syncthreads(), but the threads of a warp may arrive from different places.
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

}  // namespace wreath

// Defines extern "C" __global__ void NAME(const Run run). It calls `function(block, run)` on blocks with
// `shared_bytes` bytes of shared memory.
#define WREATH_CUDA_KERNEL(NAME, THREADS, Run, shared_bytes, function) \
  WREATH_CUDA_KERNEL_OF_BOUNDS(__launch_bounds__(THREADS), NAME, Run, shared_bytes, function)

// Defines the same kernel where at least `BLOCKS` blocks run on a multiprocessor at once. A thread has no more
// registers than that leaves it.
#define WREATH_CUDA_RESIDENT_KERNEL(NAME, THREADS, BLOCKS, Run, shared_bytes, function) \
  WREATH_CUDA_KERNEL_OF_BOUNDS(__launch_bounds__(THREADS, BLOCKS), NAME, Run, shared_bytes, function)

#define WREATH_CUDA_KERNEL_OF_BOUNDS(BOUNDS, NAME, Run, shared_bytes, function) \
  extern "C" __global__ void BOUNDS NAME(const __grid_constant__ Run run) {     \
    __shared__ alignas(16) unsigned char shared[shared_bytes];                  \
    wreath::CudaBlock block(reinterpret_cast<std::byte*>(shared));              \
    function(block, run);                                                       \
  }
