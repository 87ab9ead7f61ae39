// Marks functions that nvcc compiles for the host and for GPUs.
#pragma once

#if defined(__CUDACC__)
#define WREATH_HOST_DEVICE __host__ __device__
#else
#define WREATH_HOST_DEVICE
#endif
