// Whose memory a call is given, and what of it is refused.
#pragma once

#include <string_view>

#include "src/device/library_device.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// The device whose memory it is: the host does not reach it. Null for memory of the host, pinned and managed, too.
// Costs two loads where the process has no device memory.
LibraryDevice* device_of(const void* data);

// A buffer of a call: what a message calls it ("input"), and where it is; null: the call has none.
struct CallBuffer {
  std::string_view name;
  const void* data;
};
// InvalidArgument, naming buffers and devices, for memory of another device than the other buffer's or the stream's
// (null: none), or of one that does not start.
Status check_call_memory(const CallBuffer& buffer, const CallBuffer& other, const Stream* stream);
// InvalidArgument where `bytes` of a buffer in memory of a device go beyond its allocation.
Status check_inside(const CallBuffer& buffer, std::size_t bytes);

}  // namespace wreath
