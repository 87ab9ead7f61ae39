// Memory that peers on this host map: sent from it, data is read in place instead of copied.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "wreath/result.hpp"

namespace wreath {

// Owns a region made by allocate(). Page-aligned, zero-filled, faulted in. Freed when destroyed, and, where a Work uses
// it, when that call is over; peers that still map it keep reading their own mapping, never a recycled one.
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

// Ordinary memory of the caller that peers map as they do allocate()'s, for as long as this lives. At its end the
// contents stay and the memory is private again.
class Registration {
 public:
  Registration() = default;
  Registration(Registration&& other) noexcept : pages_(std::exchange(other.pages_, {})) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(pages_, other.pages_);
    return *this;
  }
  ~Registration();
  // The whole pages inside the range: a call whose buffer lies in them is read in place.
  std::byte* data() const noexcept { return pages_.data(); }
  std::size_t size() const noexcept { return pages_.size(); }

 private:
  friend Result<Registration> register_memory(void* data, std::size_t bytes);
  explicit Registration(std::span<std::byte> pages) : pages_(pages) {}
  std::span<std::byte> pages_;
};

// Replaces the whole pages inside [data, data + bytes), which must be private, anonymous and writable (malloc, new,
// mmap, static data without initial values), by shareable pages with the same contents at the same addresses. Align
// buffers to pages (std::aligned_alloc) to have all of them. While memory is registered it must not be freed or
// remapped, and a forked child shares it with its parent.
//
// Nobody, no thread and no operation in flight, may use the range while register_memory or ~Registration runs: what is
// written meanwhile can be lost.
//
// InvalidArgument: less than a page, or not such memory (the message names the mapping), or registered already.
// Unavailable: this system does not tell what is mapped. System: memory was refused. Then nothing has changed.
Result<Registration> register_memory(void* data, std::size_t bytes);

}  // namespace wreath
