// Memory of CUDA devices, which communicators do not take yet: refused by name, where it would be a segmentation fault.
#pragma once

#include <atomic>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// Whether this process has used a CUDA device by this library: until then it knows of no such memory.
inline std::atomic<bool> cuda_in_use{false};

// InvalidArgument, naming the device and `argument`, for memory that only a CUDA device reaches.
Status refuse_cuda_memory(std::string_view argument, const void* data);

// The same at the cost of a load where no CUDA is.
inline Status check_host_memory(std::string_view argument, const void* data) {
  return cuda_in_use.load(std::memory_order_relaxed) ? refuse_cuda_memory(argument, data) : Status();
}

}  // namespace wreath
