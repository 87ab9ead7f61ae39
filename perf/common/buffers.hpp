// The buffers with which one rank measures: two inputs and one output, with the requested misalignment, and guards at
// both ends. Kernels of the device write and compare the buffers of a device, and pinned ones.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "perf/base/device_patterns.hpp"
#include "perf/base/pattern.hpp"
#include "perf/base/streamed.hpp"
#include "wreath/memory.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

inline constexpr std::size_t kGuardBytes = 64;
inline constexpr int kBuffersOfARank = 3;  // two inputs and the output

// Unmaps memory of mmap.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* address) const;
};

// The kind of memory for buffers.
struct BufferMemory {
  MemoryPlace place = MemoryPlace::Host;
  Device* device = nullptr;  // of a place that has one
  // Whether results are checked. Only then the device must have kernels for patterns.
  bool checked = true;
};

// A buffer of `bytes` usable bytes, with 64 guard bytes before and after. The usable bytes start `offset` bytes after
// the 64th byte of the allocation. The host may not touch the bytes where they are a device's memory.
class GuardedBuffer {
 public:
  static Result<GuardedBuffer> make(std::size_t bytes, std::size_t offset, const BufferMemory& memory);
  std::span<std::byte> first(std::size_t bytes) const { return {start_, bytes}; }
  // Returns the guards around the first `bytes` bytes.
  std::array<std::span<std::byte>, 2> guards(std::size_t bytes) const {
    return {{{start_ - kGuardBytes, kGuardBytes}, {start_ + bytes, kGuardBytes}}};
  }

 private:
  std::unique_ptr<std::byte, Unmap> private_;
  Memory shared_;
  DeviceMemory device_memory_;
  std::byte* start_ = nullptr;
};

struct Buffers {
  std::array<GuardedBuffer, 2> input;
  GuardedBuffer output;
  // The stream of the calls; null: they have none. The stream ends before the memory.
  std::unique_ptr<Stream> stream;
  // The patterns of the device that has the memory. Null where there is a stream: nothing is filled or compared. Null
  // where there is none: the host does it.
  std::unique_ptr<DevicePatterns> patterns;
  static Result<Buffers> make(std::size_t bytes, std::size_t offset, const BufferMemory& memory);

  // Fills a target with a pattern, as Pattern does. The earlier work of the stream must be over, and the filling is
  // over on return.
  Status fill(std::span<std::byte> target, const Pattern& pattern, std::size_t first = 0) const;
  // Counts the wrong elements of data, as Pattern does, under the same rules.
  Result<std::uint64_t> count_wrong(std::span<const std::byte> data, const Pattern& pattern,
                                    std::size_t first = 0) const;
  // Sets the guards around the first `bytes` bytes.
  Status set_guards(const GuardedBuffer& buffer, std::size_t bytes) const;
  // Counts the guard bytes that changed since set_guards().
  Result<std::uint64_t> count_broken_guards(const GuardedBuffer& buffer, std::size_t bytes) const;
};

}  // namespace wreath::perf
