// Patterns in a device's memory, which kernels write and compare there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "perf/base/pattern.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// Writes and compares patterns. The spans name device or pinned memory, which the host need not be able to read.
class DevicePatterns {
 public:
  // Works in `stream`, which must live longer. Returns Unavailable where the device has no such kernels.
  static Result<std::unique_ptr<DevicePatterns>> make(Stream& stream);
  // These do the same as the functions of Pattern. The earlier work of the stream must be over, and their own work is
  // over on return.
  Status fill(std::span<std::byte> target, const Pattern& pattern, std::size_t first = 0);
  Result<std::uint64_t> count_wrong(std::span<const std::byte> data, const Pattern& pattern, std::size_t first = 0);

 private:
  explicit DevicePatterns(Stream& stream) : stream_(stream) {}
  Status load(const Pattern& pattern);

  Stream& stream_;
  int threads_ = 0;      // of a block
  int most_blocks_ = 0;  // of a grid
  DeviceMemory period_;
  DeviceMemory wrong_;  // pinned: by block
};

}  // namespace wreath::perf
