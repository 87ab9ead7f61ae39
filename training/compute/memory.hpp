// This file counts the memory of a rank's training state by its use. The allocator that serves the memory also counts
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "training/compute/block_pool.hpp"

namespace wreath::training {

enum class MemoryTag : std::uint8_t {
  // Weights that this rank keeps between steps.
  Parameters,
  // Gradients that this rank keeps.
  Gradients,
  // Moments and master weights.
  Optimizer,
  // Weights held while a unit is used: those of all ranks, or widened ones.
  Gathered,
  // Staging memory of gradients that are being reduced.
  Buckets,
  // Values that the forward pass keeps for the backward pass.
  Activations,
  // Scratch memory of a layer while it runs.
  Workspace,
  // Copies that are written to a checkpoint.
  Checkpoint,
};
inline constexpr std::size_t kMemoryTags = 8;

std::string_view name(MemoryTag tag) noexcept;

class Compute;  // training/compute/compute.hpp

// Counts the bytes in use and their highest value, by tag. It belongs to one rank, and one thread at a time uses it. A
// copy has its own numbers and shares the pool.
class MemoryAccounting {
 public:
  // Places buffers that are allocated from now on in memory of `compute`, which outlives them. Null, the default,
  // places them in host memory. Buffers of MemoryTag::Checkpoint always lie in host memory.
  void place_on(Compute* compute) noexcept { compute_ = compute; }
  Compute* compute() const noexcept { return compute_; }
  std::size_t bytes(MemoryTag tag) const noexcept { return bytes_[index(tag)]; }
  std::size_t peak_bytes(MemoryTag tag) const noexcept { return peak_bytes_[index(tag)]; }
  void add(MemoryTag tag, std::size_t bytes) noexcept;
  void remove(MemoryTag tag, std::size_t bytes) noexcept { bytes_[index(tag)] -= bytes; }
  // Returns the pool that host memory is taken from. Its peak is the most that the process has held for this rank: no
  // more than was in use at once.
  BlockPool& pool() noexcept { return *pool_; }
  const BlockPool& pool() const noexcept { return *pool_; }
  // Begins the peaks anew at the bytes in use now.
  void reset_peaks() noexcept { peak_bytes_ = bytes_; }

 private:
  static std::size_t index(MemoryTag tag) noexcept { return static_cast<std::size_t>(tag); }
  Compute* compute_ = nullptr;
  std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  std::array<std::size_t, kMemoryTags> bytes_{};
  std::array<std::size_t, kMemoryTags> peak_bytes_{};
};

// Returns `bytes` at an address divisible by 64. Throws std::bad_alloc, whose text gives the use and the size.
void* allocate_counted(MemoryAccounting& accounting, MemoryTag tag, std::size_t bytes);
void zero_counted(void* data, std::size_t bytes);
void free_counted(MemoryAccounting& accounting, MemoryTag tag, void* data, std::size_t bytes) noexcept;

enum class Contents : std::uint8_t { Zero, Undefined };

// Owns `count` elements; the accounting outlives it. It is move-only.
template <typename T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(MemoryAccounting& accounting, MemoryTag tag, std::size_t count, Contents contents = Contents::Zero)
      : accounting_(&accounting), tag_(tag), count_(count) {
    data_ = static_cast<T*>(allocate_counted(accounting, tag, count * sizeof(T)));
    if (contents == Contents::Zero) zero_counted(data_, count * sizeof(T));
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer gone;
    gone.swap(other);
    swap(gone);
    return *this;
  }
  ~Buffer() {
    if (accounting_ != nullptr) free_counted(*accounting_, tag_, data_, count_ * sizeof(T));
  }
  T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  std::span<T> span() const noexcept { return {data_, count_}; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(accounting_, other.accounting_);
    std::swap(tag_, other.tag_);
    std::swap(count_, other.count_);
    std::swap(data_, other.data_);
  }
  MemoryAccounting* accounting_ = nullptr;
  MemoryTag tag_ = MemoryTag::Workspace;
  std::size_t count_ = 0;
  T* data_ = nullptr;
};

}  // namespace wreath::training
