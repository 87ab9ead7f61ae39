// Memory of the host that the process has mapped itself, let in to kernels: registered with the driver, for all
// devices.
#pragma once

#include <memory>

#include "src/device/cuda/context.hpp"
#include "src/device/library_device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Registered until the last who asked for it is gone, of whatever device, and no stream waits. Memory that the program
// has registered itself stays its own. Pages that this process only reads are registered to be read where the device
// can have that (`reads_only`), else are writable for a moment.
Result<std::shared_ptr<const void>> register_host_memory(const CudaContext& context, const HostPages& pages,
                                                         bool reads_only);

}  // namespace wreath
