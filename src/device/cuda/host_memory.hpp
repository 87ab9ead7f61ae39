// Gives kernels access to memory of the host that the process has mapped itself. The memory is registered with the
// driver, for all devices.
#pragma once

#include <memory>

#include "src/device/cuda/context.hpp"
#include "src/device/library_device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Registers the pages until the last returned object for them is gone, for whatever device, and no stream waits. Memory
// that the program has registered itself stays the program's. Pages that this process only reads are registered as
// read-only where the device supports it (`reads_only`). Otherwise they are writable for a moment.
Result<std::shared_ptr<const void>> register_host_memory(const CudaContext& context, const HostPages& pages,
                                                         bool reads_only);

}  // namespace wreath
