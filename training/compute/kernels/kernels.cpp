// This file defines each kernel with its code for GPUs and for blocks of host threads.
#include "training/compute/kernels/kernels.hpp"

namespace wreath {
const void* training_cuda_image() noexcept;  // made by the build
}

namespace wreath::training {
namespace {

template <typename Run>
void on_host(HostBlock& block, const void* arguments) {
  run_kernel(block, *static_cast<const Run*>(arguments));
}

}  // namespace

#define WREATH_DEFINE_KERNEL(name, Run, Shared)                                                 \
  template <>                                                                                   \
  const Kernel& kernel_of<Run>() noexcept {                                                     \
    static_assert(sizeof(Shared) <= sizeof(HostBlockShared::memory));                           \
    static const Kernel kernel{"wreath_training_" #name, training_cuda_image(), &on_host<Run>}; \
    return kernel;                                                                              \
  }
WREATH_TRAINING_KERNELS(WREATH_DEFINE_KERNEL)
#undef WREATH_DEFINE_KERNEL

}  // namespace wreath::training
