// Makes memory with walls: a read or a write beyond its end ends the process, whatever compiled the access.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>

namespace wreath::test {

// Says which end of the bytes is at a page that cannot be touched; they fill no whole pages.
enum class Wall { Before, After };

class WalledMemory {
 public:
  WalledMemory(std::size_t bytes, Wall wall) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    const std::size_t inner = (bytes + page_ - 1) / page_ * page_;
    mapped_ = inner + 2 * page_;
    void* all = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<std::byte*>(all);
    if (inner > 0 && mprotect(all_ + page_, inner, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    data_ = all_ + page_ + (wall == Wall::After ? inner - bytes : 0);
  }
  ~WalledMemory() { munmap(all_, mapped_); }
  WalledMemory(const WalledMemory&) = delete;
  WalledMemory& operator=(const WalledMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::size_t page_;
  std::size_t mapped_ = 0;
  std::byte* all_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace wreath::test
