// Declares the part of the CUDA driver's binary interface that the library uses, so that it builds without CUDA.
// `tests/unit/device/cuda_abi_test.cpp` compares it with cuda.h where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath {

using CudaResult = int;
using CudaAddress = unsigned long long;
using CudaAllocation = unsigned long long;
// An object of the driver: a context, stream, event, module or function.
using CudaHandle = void*;

inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaInvalidImage = 200;
inline constexpr CudaResult kCudaInvalidContext = 201;
inline constexpr CudaResult kCudaNoBinaryForGpu = 209;
inline constexpr CudaResult kCudaInvalidPtx = 218;
inline constexpr CudaResult kCudaUnsupportedPtx = 222;
inline constexpr CudaResult kCudaInvalidHandle = 400;
inline constexpr CudaResult kCudaNotReady = 600;
inline constexpr CudaResult kCudaPeerAccessAlreadyEnabled = 704;
inline constexpr CudaResult kCudaAlreadyRegistered = 712;
inline constexpr CudaResult kCudaLaunchFailed = 719;
inline constexpr CudaResult kCudaNotSupported = 801;

// The numbers of device attributes.
inline constexpr int kCudaMultiprocessors = 16;
inline constexpr int kCudaSameHostAddress = 91;
inline constexpr int kCudaDescriptorsSupported = 103;
inline constexpr int kCudaRdmaOfMapped = 110;
inline constexpr int kCudaReadOnlyHostMemory = 113;
inline constexpr int kCudaRdmaFlushOptions = 117;
inline constexpr int kCudaRdmaOrder = 118;
inline constexpr int kCudaDmaBufSupported = 124;
inline constexpr int kCudaMpsEnabled = 133;

// The values of device attributes.
inline constexpr int kCudaRdmaFlushByHost = 1;
inline constexpr int kCudaRdmaOrderOwner = 100;

// The numbers and values of pointer attributes.
inline constexpr int kCudaMemoryType = 2;
inline constexpr int kCudaBufferId = 7;
inline constexpr int kCudaIsManaged = 8;
inline constexpr int kCudaDeviceOrdinal = 9;
inline constexpr int kCudaRangeStart = 11;
inline constexpr int kCudaRangeBytes = 12;
inline constexpr unsigned kCudaMemoryHost = 1;
inline constexpr unsigned kCudaMemoryDevice = 2;

// The flags and enumerators of driver functions.
inline constexpr unsigned kCudaHostPortable = 1;
inline constexpr unsigned kCudaHostDeviceMap = 2;
inline constexpr unsigned kCudaRegisterPortable = 1;
inline constexpr unsigned kCudaRegisterDeviceMap = 2;
inline constexpr unsigned kCudaRegisterReadOnly = 8;
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventDisableTiming = 2;
inline constexpr unsigned kCudaIpcLazyPeerAccess = 1;
inline constexpr unsigned kCudaWaitGreaterOrEqual = 0;
inline constexpr int kCudaCaptureRelaxed = 2;
inline constexpr int kCudaNotCapturing = 0;
inline constexpr int kCudaDescriptorHandle = 1;
inline constexpr int kCudaPinnedAllocation = 1;
inline constexpr int kCudaAtDevice = 1;
inline constexpr int kCudaReadWrite = 3;
inline constexpr int kCudaMinimumGranularity = 0;
inline constexpr int kCudaDmaBufDescriptor = 1;
inline constexpr int kCudaFlushCurrent = 0;
inline constexpr int kCudaFlushToOwner = 100;

struct CudaLocation {
  int type;
  int id;
};

struct CudaAllocationProperties {
  int type;
  int handle_types;
  CudaLocation location;
  void* unused;
  struct {
    unsigned char compression;
    unsigned char rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct CudaAccess {
  CudaLocation location;
  int flags;
};

struct CudaUuid {
  unsigned char bytes[16];
};

struct CudaIpcHandle {
  std::byte bytes[64];
};

}  // namespace wreath
