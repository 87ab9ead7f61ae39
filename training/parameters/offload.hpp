// This file keeps training state in a memory-mapped file instead of memory, like ZeRO-Infinity (Rajbhandari et al., SC
// 2021).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "training/compute/memory.hpp"

namespace wreath::training {

// A mapped file without a name in a folder. Its blocks are reserved at once, and the file is gone with its owner, even
// where the owner crashes. Throws Exception (System) that names folder and reason. It is move-only.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const std::string& folder, std::size_t bytes);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::byte* data() const noexcept { return data_; }
  // Starts reading the part of the range that is not in memory. Returns at once.
  void read_ahead(std::size_t begin, std::size_t bytes) const noexcept;
  // Removes the whole pages of the range from this process's memory. Written data goes to the file, and a later read
  // gets it from there.
  void let_go(std::size_t begin, std::size_t bytes) const noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Holds `count` elements, which are zero at first. They are counted memory or, where a folder is given, a file there,
// which no tag counts.
class OffloadableBuffer {
 public:
  OffloadableBuffer(MemoryAccounting& memory, MemoryTag tag, std::size_t count, const std::string& folder);
  std::span<float> span() const noexcept { return span_; }
  float* data() const noexcept { return span_.data(); }
  std::size_t size() const noexcept { return span_.size(); }
  // The functions take elements in span(); in memory they do nothing.
  void read_ahead(std::span<const float> part) const noexcept;
  void let_go(std::span<const float> part) const noexcept;

 private:
  std::size_t offset_of(std::span<const float> part) const noexcept;
  Buffer<float> memory_;
  MappedFile file_;
  std::span<float> span_;
};

}  // namespace wreath::training
