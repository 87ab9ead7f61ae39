// Stands for the module that nvcc makes, for the fake CUDA driver, so that the tests need no nvcc.
#include "src/executor/block/image.hpp"

namespace wreath {

const void* cuda_image() noexcept { return "the executor"; }

}  // namespace wreath
