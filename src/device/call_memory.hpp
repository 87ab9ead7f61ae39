// Whose memory a call is given, and what of it is refused.
#pragma once

#include <atomic>
#include <cstddef>
#include <string_view>

#include "src/device/library_device.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Set for good with a process's first memory of the host device, or its first use of CUDA: until then calls look no
// further. Who asks about memory has made it before, so a relaxed load does.
inline constinit std::atomic<bool> may_have_device_memory{false};

LibraryDevice* find_device_of(const void* data);
// The device whose memory it is: the host does not reach it. Null for memory of the host, pinned and managed, too.
inline LibraryDevice* device_of(const void* data) {
  return may_have_device_memory.load(std::memory_order_relaxed) ? find_device_of(data) : nullptr;
}

// A buffer of a call: what a message calls it ("input"), and where it is; null: the call has none.
struct CallBuffer {
  std::string_view name;
  const void* data;
};
// InvalidArgument, naming buffers and devices, for memory of another device than the other buffer's or the stream's
// (null: none), or of one that does not start.
Status compare_call_memory(const CallBuffer& buffer, const CallBuffer& other, const Stream* stream);
inline Status check_call_memory(const CallBuffer& buffer, const CallBuffer& other, const Stream* stream) {
  const bool may = may_have_device_memory.load(std::memory_order_relaxed);
  return may ? compare_call_memory(buffer, other, stream) : Status();
}
// InvalidArgument where `bytes` of a buffer in memory of a device go beyond its allocation.
Status check_inside(const CallBuffer& buffer, std::size_t bytes);

}  // namespace wreath
