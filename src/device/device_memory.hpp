// The memory of the host device: the address its users hold cannot be touched; the library works through a second one.
#pragma once

#include <cstddef>

#include "wreath/result.hpp"

namespace wreath {

// `bytes` (rounded up to pages) of zeros under two addresses; the returned one is inaccessible. System when refused.
Result<std::byte*> map_device_memory(std::size_t bytes);
void unmap_device_memory(std::byte* data, std::size_t bytes);

// Where the library reaches [data, data + bytes): the second address if it is all host device memory, else `data`
// itself. Any thread; costs a load where the process has no device memory.
std::byte* reachable(const void* data, std::size_t bytes) noexcept;

}  // namespace wreath
