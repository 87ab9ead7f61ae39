// This file keeps free blocks and decides which of them the pool returns to the system.
#include "training/compute/block_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace wreath::training {

namespace {

constexpr std::align_val_t kAlignment{64};
// The heap serves smaller blocks.
constexpr std::size_t kLeastKept = 16 << 10;
// A build with sanitizers takes all blocks from the heap, which the sanitizers watch.
#if defined(WREATH_SANITIZED)
constexpr std::size_t kLeastMapped = SIZE_MAX;
#else
constexpr std::size_t kLeastMapped = 128 << 10;
#endif

// Gives large blocks pages of their own, which return to the system when the block is freed. The heap would keep large
// blocks once it has seen some come back.
void* get_block(std::size_t bytes) noexcept {
  if (bytes < kLeastMapped) return ::operator new(std::max<std::size_t>(bytes, 1), kAlignment, std::nothrow);
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void put_back(void* data, std::size_t bytes) noexcept {
  if (bytes < kLeastMapped) return ::operator delete(data, kAlignment);
  ::munmap(data, bytes);
}

}  // namespace

BlockPool::~BlockPool() { shrink_to(0); }

void* BlockPool::reuse(std::size_t bytes) noexcept {
  const auto found = free_.find(bytes);
  if (found == free_.end() || found->second.empty()) return nullptr;
  // Takes the block that was freed last, since the caches may still hold its lines.
  void* const data = found->second.back().data;
  found->second.pop_back();
  free_bytes_ -= bytes;
  return data;
}

void* BlockPool::take(std::size_t bytes) noexcept {
  void* data = reuse(bytes);
  if (data == nullptr) {
    const std::size_t used = used_bytes_ + bytes;
    const std::size_t most = std::max(peak_used_, used);
    shrink_to(most - used);
    data = get_block(bytes);
    if (data == nullptr) {
      shrink_to(0);
      data = get_block(bytes);
    }
    if (data == nullptr) return nullptr;
  }
  used_bytes_ += bytes;
  peak_used_ = std::max(peak_used_, used_bytes_);
  return data;
}

void BlockPool::give(void* data, std::size_t bytes) noexcept {
  used_bytes_ -= bytes;
  if (bytes >= kLeastKept) {
    try {
      free_[bytes].push_back({data, ++givings_});
      free_bytes_ += bytes;
      return;
    } catch (const std::bad_alloc&) {
      // Without memory for its entry the block is not kept.
    }
  }
  put_back(data, bytes);
}

void BlockPool::shrink_to(std::size_t bytes) noexcept {
  while (free_bytes_ > bytes) {
    auto oldest = free_.end();
    for (auto of_size = free_.begin(); of_size != free_.end();) {
      if (of_size->second.empty()) {
        of_size = free_.erase(of_size);
        continue;
      }
      if (oldest == free_.end() || of_size->second.front().since < oldest->second.front().since) oldest = of_size;
      ++of_size;
    }
    put_back(oldest->second.front().data, oldest->first);
    oldest->second.pop_front();
    free_bytes_ -= oldest->first;
  }
}

}  // namespace wreath::training
