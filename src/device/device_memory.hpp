// The memory of the host device: the address its users hold cannot be touched; the library works through a second one.
// Pinned memory has one address.
#pragma once

#include <cstddef>

#include "src/base/fd.hpp"
#include "src/device/library_device.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// `bytes` (rounded up to pages) of zeros; but for pinned memory under two addresses, of which the returned one is
// inaccessible. System when refused.
Result<std::byte*> map_device_memory(std::size_t bytes, MemoryUse use);
// Maps the `bytes` bytes behind another allocation's descriptor likewise, but to be read only. Mismatch where it has
// not just these, or could shrink.
Result<std::byte*> map_exported_memory(const Fd& descriptor, std::size_t bytes);
// Waits until nobody looks at it (memory_in_use.hpp).
void unmap_device_memory(std::byte* data);

// A descriptor of the exportable allocation that `data` is in. InvalidArgument where there is none.
Result<MemoryExport> export_device_memory(const void* data);
// Whether there is one.
bool is_exportable_memory(const void* data) noexcept;

// Where the library reaches [data, data + bytes): the second address if it is all host device memory, else `data`
// itself. Any thread; costs a load where the process has no device memory.
std::byte* reachable(const void* data, std::size_t bytes) noexcept;

// Whether kernels reach [data, data + bytes) by these addresses, as memory made here.
bool is_in_kernels(const void* data, std::size_t bytes) noexcept;

// Host unless `data` is in an allocation made here.
PointerFacts host_facts_of(const void* data) noexcept;

}  // namespace wreath
