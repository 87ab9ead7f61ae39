// The buffers one rank measures with: two inputs, one output, misaligned as asked, guarded at both ends. Those of a
// device, and pinned ones, are written and compared by kernels of the device.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "perf/base/pattern.hpp"
#include "perf/base/streamed.hpp"
#include "perf/kernels/device_patterns.hpp"
#include "wreath/memory.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

inline constexpr std::size_t kGuardBytes = 64;
inline constexpr int kBuffersOfARank = 3;  // two inputs and the output

// Deletes what mmap gave.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* address) const;
};

// What buffers are made of.
struct BufferMemory {
  MemoryPlace place = MemoryPlace::Host;
  Device* device = nullptr;  // of a place that has one
};

// `bytes` usable bytes that start `offset` bytes after a page's 64th; the 64 before and the 64 after
// are guards. Of a device the host may not touch what spans name.
class GuardedBuffer {
 public:
  static Result<GuardedBuffer> make(std::size_t bytes, std::size_t offset, const BufferMemory& memory);
  std::span<std::byte> first(std::size_t bytes) const { return {start_, bytes}; }
  // Around the first `bytes`.
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
  std::unique_ptr<Stream> stream;            // of calls; null: they have none. Ends before the memory
  std::unique_ptr<DevicePatterns> patterns;  // of the device that has the memory; null: the host writes and compares
  static Result<Buffers> make(std::size_t bytes, std::size_t offset, const BufferMemory& memory);

  // As Pattern's; the stream's earlier work is over, and so are they on return.
  Status fill(std::span<std::byte> target, const Pattern& pattern, std::size_t first = 0) const;
  Result<std::uint64_t> count_wrong(std::span<const std::byte> data, const Pattern& pattern,
                                    std::size_t first = 0) const;
  // Sets the guards around the first `bytes`, and counts the bytes that changed since.
  Status set_guards(const GuardedBuffer& buffer, std::size_t bytes) const;
  Result<std::uint64_t> count_broken_guards(const GuardedBuffer& buffer, std::size_t bytes) const;
};

}  // namespace wreath::perf
