// The memory of the host device. Its users hold an address that cannot be touched, and the library works through a
// second address. Pinned memory has one address.
#pragma once

#include <cstddef>

#include "src/base/fd.hpp"
#include "src/device/library_device.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Maps `bytes` bytes of zeros, rounded up to pages. Memory that is not pinned gets two addresses, of which the returned
// one is inaccessible. Returns System when refused.
Result<std::byte*> map_device_memory(std::size_t bytes, MemoryUse use);
// Maps the `bytes` bytes behind another allocation's descriptor in the same way, but only for reading. Returns Mismatch
// where the descriptor has another size, or could shrink.
Result<std::byte*> map_exported_memory(const Fd& descriptor, std::size_t bytes);
// Waits until nobody looks at the memory (memory_in_use.hpp), and unmaps it.
void unmap_device_memory(std::byte* data);

// Returns a descriptor of the exportable allocation that `data` is in, or InvalidArgument where there is none.
Result<MemoryExport> export_device_memory(const void* data);
// Returns whether `data` is in an exportable allocation.
bool is_exportable_memory(const void* data) noexcept;

// Returns the address through which the library reaches [data, data + bytes). This is the second address if all of it
// is memory of the host device, else `data`. Any thread may call it. The cost is one load where the process has no
// device memory.
std::byte* reachable(const void* data, std::size_t bytes) noexcept;

// Returns whether kernels reach [data, data + bytes) by these addresses, as memory made here.
bool is_in_kernels(const void* data, std::size_t bytes) noexcept;

// Returns the facts of the allocation made here that `data` is in. The kind is Host where there is none.
PointerFacts host_facts_of(const void* data) noexcept;

}  // namespace wreath
