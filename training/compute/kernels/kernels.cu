// This file compiles the training layer's kernels for GPUs.
#include "training/compute/kernels/kernels.hpp"
#include "wreath/cuda_block.cuh"

namespace wreath::training {

template <>
inline constexpr unsigned kFewestThreads<CudaBlock> = kKernelThreads;

#define WREATH_TRAINING_KERNEL(name, Run, Shared) \
  WREATH_CUDA_KERNEL(wreath_training_##name, kKernelThreads, Run, sizeof(Shared), run_kernel)
WREATH_TRAINING_KERNELS(WREATH_TRAINING_KERNEL)

}  // namespace wreath::training
