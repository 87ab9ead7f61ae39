// The buffers one rank measures with: two inputs, one output, misaligned as asked, guarded at both ends. Those of a
// device have a mirror in ordinary memory, which is filled and looked at.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "perf/common/streamed.hpp"
#include "wreath/memory.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

inline constexpr std::size_t kGuardBytes = 64;

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
// are guards.
class GuardedBuffer {
 public:
  static Result<GuardedBuffer> make(std::size_t bytes, std::size_t offset, const BufferMemory& memory);
  std::span<std::byte> first(std::size_t bytes) const { return {start_, bytes}; }
  // Sets the guards around the first `bytes`, and counts the bytes that changed since.
  Status set_guards(std::size_t bytes) const;
  Result<std::size_t> count_broken_guards(std::size_t bytes) const;
  // To or from the device, with the guards, where there is a mirror.
  Status push(std::size_t bytes) const { return copy(bytes, true); }
  Status pull(std::size_t bytes) const { return copy(bytes, false); }
  // What calls are given for `address`; null where it is in another buffer.
  std::byte* reached(const std::byte* address) const;

 private:
  Status copy(std::size_t bytes, bool to_device) const;

  std::unique_ptr<std::byte, Unmap> private_;
  Memory shared_;
  DeviceMemory device_memory_;
  Device* device_ = nullptr;           // null: no mirror
  std::byte* device_start_ = nullptr;  // what start_ mirrors
  std::byte* start_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Buffers {
  std::array<GuardedBuffer, 2> input;
  GuardedBuffer output;
  std::unique_ptr<Stream> stream;  // of calls; null: they have none. Ends first
  static Result<Buffers> make(std::size_t bytes, std::size_t offset, const BufferMemory& memory);
  // What calls are given for an address in the buffers.
  std::byte* reached(const std::byte* address) const;
};

}  // namespace wreath::perf
