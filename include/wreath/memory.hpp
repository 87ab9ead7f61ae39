// Provides memory that ranks of this host map, and network adapters read and write: data need not be copied first.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "wreath/result.hpp"

namespace wreath {

// Owns a region that allocate() made. The region is page-aligned, zero-filled and faulted in. It is freed when this
// object is destroyed, or, where a Work uses it, when that call is over. Peers that still map it keep reading their
// own mapping, never a recycled one.
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
  // Returns the first size() / sizeof(T) elements.
  template <typename T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  friend Result<Memory> allocate(std::size_t bytes);
  explicit Memory(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

// Returns `bytes` of memory that processes of this host and adapters can share. Fails with System when it is refused.
Result<Memory> allocate(std::size_t bytes);

// Makes peers and adapters use ordinary memory of the caller as they use allocate()'s, for as long as this object
// lives. At its end the contents stay and the memory is private again.
class Registration {
 public:
  Registration() = default;
  Registration(Registration&& other) noexcept : pages_(std::exchange(other.pages_, {})) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(pages_, other.pages_);
    return *this;
  }
  ~Registration();
  // Returns the start of the whole pages inside the range: a call whose buffer lies in them is read in place.
  std::byte* data() const noexcept { return pages_.data(); }
  // Returns the bytes of these pages.
  std::size_t size() const noexcept { return pages_.size(); }

 private:
  friend Result<Registration> register_memory(void* data, std::size_t bytes);
  explicit Registration(std::span<std::byte> pages) : pages_(pages) {}
  std::span<std::byte> pages_;
};

// Replaces the whole pages inside [data, data + bytes) by shareable pages with the same contents at the same
// addresses. The range must be private, anonymous and writable (malloc, new, mmap, static data without initial
// values). Callers align buffers to pages (std::aligned_alloc) to register all of them. While memory is registered it
// must not be freed or remapped, and a forked child shares it with its parent.
//
// No thread and no operation in flight may use the range while register_memory or ~Registration runs: a write
// meanwhile can be lost.
//
// Fails with InvalidArgument where the range holds less than a page, is not such memory (the message names the
// mapping) or is registered already. Fails with Unavailable where this system does not tell what is mapped, and with
// System where memory was refused. After a failure nothing has changed.
Result<Registration> register_memory(void* data, std::size_t bytes);

}  // namespace wreath
