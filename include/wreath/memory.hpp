// Memory that peers on this host map: sent from it, data is read in place instead of copied.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "wreath/result.hpp"

namespace wreath {

// Owns a region made by allocate(). Page-aligned, zero-filled, faulted in. Freed when destroyed;
// peers that still map it keep reading their own mapping, never a recycled one.
class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();
  std::byte* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }
  // The first size()/sizeof(T) elements.
  template <typename T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  friend Result<Memory> allocate(std::size_t bytes);
  explicit Memory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

// `bytes` of memory shareable with other processes of this host. System error when refused.
Result<Memory> allocate(std::size_t bytes);

}  // namespace wreath
