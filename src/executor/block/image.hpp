// The kernels' code for GPUs. It exists where nvcc was found when this was built.
#pragma once

namespace wreath {

// Returns a fat binary for cuModuleLoadData, or null where there is none.
const void* cuda_image() noexcept;

}  // namespace wreath
