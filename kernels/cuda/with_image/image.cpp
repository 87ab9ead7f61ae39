// The fat binary that nvcc made, as bytes of the library.
#include "kernels/cuda/image.hpp"

asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".local wreath_cuda_image_bytes\n"
    "wreath_cuda_image_bytes:\n"
    ".incbin \"" WREATH_CUDA_IMAGE
    "\"\n"
    ".popsection\n");

extern "C" const unsigned char wreath_cuda_image_bytes[];

namespace wreath {

const void* cuda_image() noexcept { return wreath_cuda_image_bytes; }

}  // namespace wreath
