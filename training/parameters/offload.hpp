// Training state in a memory-mapped file instead of memory (ZeRO-Infinity's way: Rajbhandari et al., SC 2021).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "training/compute/memory.hpp"

namespace wreath::training {

// A file without a name in a folder, mapped: its blocks are reserved at once, and it is gone with its owner, however
// that ends. Throws Exception (System), naming folder and reason. Move-only.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const std::string& folder, std::size_t bytes);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::byte* data() const noexcept { return data_; }
  // Starts reading what is not in memory. Returns at once.
  void read_ahead(std::size_t begin, std::size_t bytes) const noexcept;
  // Takes whole pages of the range out of this process's memory; what was written goes to the file, and whoever reads
  // them again gets them from there.
  void let_go(std::size_t begin, std::size_t bytes) const noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// `count` elements: counted memory, or where a folder is named a file there, which no tag counts. Zero at first.
class OffloadableBuffer {
 public:
  OffloadableBuffer(MemoryAccounting& memory, MemoryTag tag, std::size_t count, const std::string& folder);
  std::span<float> span() const noexcept { return span_; }
  float* data() const noexcept { return span_.data(); }
  std::size_t size() const noexcept { return span_.size(); }
  // In elements; nothing to do in memory. `part` lies in span().
  void read_ahead(std::span<const float> part) const noexcept;
  void let_go(std::span<const float> part) const noexcept;

 private:
  std::size_t offset_of(std::span<const float> part) const noexcept;
  Buffer<float> memory_;
  MappedFile file_;
  std::span<float> span_;
};

}  // namespace wreath::training
