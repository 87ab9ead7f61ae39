// Memory of the host that the process has mapped itself, let in to kernels: registered with the driver, for all
// devices.
#pragma once

#include <cstddef>
#include <memory>

#include "src/device/cuda/context.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Registered until the last who asked for it is gone, of whatever device. Memory that the program has registered itself
// stays its own.
Result<std::shared_ptr<const void>> register_host_memory(const CudaContext& context, std::byte* data, std::size_t bytes,
                                                         bool writable);

}  // namespace wreath
