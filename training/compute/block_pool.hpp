// BlockPool: blocks of host memory that are asked for again and again, by exact size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace wreath::training {

// A training step asks for the blocks that the step before gave back. The heap would cut those up for smaller ones, and
// hold what no book counts; the system would take the pages back, and fault them in again (a sixth of a step's time).
// So free blocks are kept as they are, as long as the pool holds no more than the most that was in use at once; beyond
// it the ones that have been free for longest go back. One rank's: of one thread at a time.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // Returns a block at an address divisible by 64; null where there is no memory for it.
  void* take(std::size_t bytes) noexcept;
  // Takes a block back; `bytes` is what it was taken with.
  void give(void* data, std::size_t bytes) noexcept;

  std::size_t free_bytes() const noexcept { return free_bytes_; }
  // The most that was in use at once; no more was ever held.
  std::size_t peak_bytes() const noexcept { return peak_used_; }

 private:
  struct FreeBlock {
    void* data;
    std::uint64_t since;  // the number of its giving
  };
  void* reuse(std::size_t bytes) noexcept;
  // Gives blocks back until at most so many bytes are free.
  void shrink_to(std::size_t bytes) noexcept;

  std::map<std::size_t, std::deque<FreeBlock>> free_;  // by size; the longest free first
  std::size_t used_bytes_ = 0;
  std::size_t free_bytes_ = 0;
  std::size_t peak_used_ = 0;
  std::uint64_t givings_ = 0;
};

}  // namespace wreath::training
