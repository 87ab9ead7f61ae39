// Memory of a rank's training state, counted by what it is for: the allocator that serves it keeps the books.
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
  Parameters,   // weights this rank keeps between steps
  Gradients,    // gradients this rank keeps
  Optimizer,    // moments and master weights
  Gathered,     // weights held while a unit is used: of all ranks, or widened
  Buckets,      // staging of gradients on their way
  Activations,  // what the forward pass keeps for the backward pass
  Workspace,    // scratch of a layer while it runs
  Checkpoint,   // what is being written to a checkpoint
};
inline constexpr std::size_t kMemoryTags = 8;

std::string_view name(MemoryTag tag) noexcept;

class Compute;  // training/compute/compute.hpp

// Bytes in use and their highest value, by tag. One rank's: of one thread at a time. A copy is one of the numbers, over
// the same pool.
class MemoryAccounting {
 public:
  // Buffers that are allocated from now on lie in memory of `compute`, which outlives them; null, as at first: in host
  // memory. Those of MemoryTag::Checkpoint always lie in host memory.
  void place_on(Compute* compute) noexcept { compute_ = compute; }
  Compute* compute() const noexcept { return compute_; }
  std::size_t bytes(MemoryTag tag) const noexcept { return bytes_[index(tag)]; }
  std::size_t peak_bytes(MemoryTag tag) const noexcept { return peak_bytes_[index(tag)]; }
  void add(MemoryTag tag, std::size_t bytes) noexcept;
  void remove(MemoryTag tag, std::size_t bytes) noexcept { bytes_[index(tag)] -= bytes; }
  // Host memory is taken from this pool. Its peak is what the process has held for this rank: no more than was in use
  // at once.
  BlockPool& pool() noexcept { return *pool_; }
  const BlockPool& pool() const noexcept { return *pool_; }
  // The peaks begin anew at what is in use now.
  void reset_peaks() noexcept { peak_bytes_ = bytes_; }

 private:
  static std::size_t index(MemoryTag tag) noexcept { return static_cast<std::size_t>(tag); }
  Compute* compute_ = nullptr;
  std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  std::array<std::size_t, kMemoryTags> bytes_{};
  std::array<std::size_t, kMemoryTags> peak_bytes_{};
};

// `bytes` at an address divisible by 64. Throws std::bad_alloc, whose text says what for and how much.
void* allocate_counted(MemoryAccounting& accounting, MemoryTag tag, std::size_t bytes);
void zero_counted(void* data, std::size_t bytes);
void free_counted(MemoryAccounting& accounting, MemoryTag tag, void* data, std::size_t bytes) noexcept;

enum class Contents : std::uint8_t { Zero, Undefined };

// Owns `count` elements; the accounting outlives it. Move-only.
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
