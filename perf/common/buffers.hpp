// The buffers one rank measures with: two inputs, one output, misaligned as asked, guarded at both ends.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "wreath/memory.hpp"
#include "wreath/result.hpp"

namespace wreath::perf {

inline constexpr std::size_t kGuardBytes = 64;

// Deletes what mmap gave.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* address) const;
};

// `bytes` usable bytes that start `offset` bytes after a page's 64th; the 64 before and the 64 after
// are guards.
class GuardedBuffer {
 public:
  static Result<GuardedBuffer> make(std::size_t bytes, std::size_t offset, bool shared);
  std::span<std::byte> first(std::size_t bytes) const { return {start_, bytes}; }
  // Sets the guards around the first `bytes`, and counts the bytes that changed since.
  void set_guards(std::size_t bytes) const;
  std::size_t count_broken_guards(std::size_t bytes) const;

 private:
  std::unique_ptr<std::byte, Unmap> private_;
  Memory shared_;
  std::byte* start_ = nullptr;
};

struct Buffers {
  std::array<GuardedBuffer, 2> input;
  GuardedBuffer output;
  static Result<Buffers> make(std::size_t bytes, std::size_t offset, bool shared);
};

}  // namespace wreath::perf
