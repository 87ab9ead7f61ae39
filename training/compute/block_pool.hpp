// BlockPool hands out blocks of host memory that are asked for again and again, by exact size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace wreath::training {

// Keeps the blocks that one training step gives back for the next step. The heap would cut those blocks up for smaller
// ones, and hold memory that no accounting counts. The system would take the pages back and fault them in again (a
// sixth of a step's time). The pool keeps free blocks whole while it holds no more than the most that was in use at
// once. Beyond that it frees the blocks that have been free for longest. It belongs to one rank, and one thread at a
// time uses it.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // Returns a block at an address divisible by 64, or null where there is no memory for it.
  void* take(std::size_t bytes) noexcept;
  // Takes a block back. `bytes` is the size that take() was given.
  void give(void* data, std::size_t bytes) noexcept;

  std::size_t free_bytes() const noexcept { return free_bytes_; }
  // Returns the most bytes that were in use at once. The pool never held more.
  std::size_t peak_bytes() const noexcept { return peak_used_; }

 private:
  struct FreeBlock {
    void* data;
    std::uint64_t since;  // the number of give() calls before
  };
  void* reuse(std::size_t bytes) noexcept;
  // Frees blocks until at most `bytes` bytes are free.
  void shrink_to(std::size_t bytes) noexcept;

  std::map<std::size_t, std::deque<FreeBlock>> free_;  // by size; the longest free first
  std::size_t used_bytes_ = 0;
  std::size_t free_bytes_ = 0;
  std::size_t peak_used_ = 0;
  std::uint64_t givings_ = 0;
};

}  // namespace wreath::training
