// No code for GPUs.
#include "kernels/cuda/image.hpp"

namespace wreath {

const void* cuda_image() noexcept { return nullptr; }

}  // namespace wreath
