// The kernels' code for GPUs, where nvcc was found when this was built.
#pragma once

namespace wreath {

// A fat binary for cuModuleLoadData; null where there is none.
const void* cuda_image() noexcept;

}  // namespace wreath
