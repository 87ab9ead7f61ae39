// Patterns in a device's memory: written and compared there, by kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "perf/base/pattern.hpp"
#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

// Spans are of the device's memory, or pinned: addresses that the host may not read.
class DevicePatterns {
 public:
  // Works in `stream`, which must outlive it. Unavailable where the device has no such kernels.
  static Result<std::unique_ptr<DevicePatterns>> make(Stream& stream);
  // As Pattern's; the stream's earlier work is over, and so is theirs on return.
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
