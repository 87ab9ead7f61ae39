// Finds the device of the memory that a call is given, and checks that memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

class LibraryDevice;
class Stream;

// Becomes true for good with a process's first memory of the host device, or with its first use of CUDA. Until then
// calls look no further. A caller that asks about memory has made that memory before, so a relaxed load is enough.
inline constinit std::atomic<bool> may_have_device_memory{false};

LibraryDevice* find_device_of(const void* data);
// Returns the device that owns the memory, where the host does not reach that memory. Returns null for memory of the
// host, also for pinned and managed memory.
inline LibraryDevice* device_of(const void* data) {
  return may_have_device_memory.load(std::memory_order_relaxed) ? find_device_of(data) : nullptr;
}

// A buffer of a call. `name` is its name in messages ("input"). `data` is null where the call has no such buffer.
struct CallBuffer {
  std::string_view name;
  const void* data;
};
// Returns InvalidArgument for memory of another device than that of the other buffer or of `stream` (null: none).
// Memory of a device that does not start is refused, too. The message names buffers and devices.
Status compare_call_memory(const CallBuffer& buffer, const CallBuffer& other, const Stream* stream);
inline Status check_call_memory(const CallBuffer& buffer, const CallBuffer& other, const Stream* stream) {
  const bool may = may_have_device_memory.load(std::memory_order_relaxed);
  return may ? compare_call_memory(buffer, other, stream) : Status();
}
// Returns InvalidArgument where `bytes` bytes of a buffer in memory of a device go beyond its allocation.
Status check_inside(const CallBuffer& buffer, std::size_t bytes);

}  // namespace wreath
