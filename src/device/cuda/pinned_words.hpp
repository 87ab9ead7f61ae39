// Words of pinned memory that a device's streams wait for, in pages that stay: to make such memory, or to free it, may
// wait for all streams, and a stream of a program comes and goes while others wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "src/device/cuda/driver.hpp"

namespace wreath {

struct CudaContext;

// Zero-filled, for all devices; freed by cuMemFreeHost.
Result<std::byte*> allocate_pinned(const CudaContext& context, std::size_t bytes);

class PinnedWords {
 public:
  explicit PinnedWords(const CudaContext& context) : context_(context) {}
  // Of which nobody has a word any more.
  ~PinnedWords();
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  // The first page.
  Status prepare();
  // A cache line; its first two words are 0.
  Result<std::uint32_t*> take();
  void give(std::uint32_t* line);

 private:
  Status make_page();

  const CudaContext& context_;
  std::mutex mutex_;
  std::vector<std::byte*> pages_;
  std::vector<std::uint32_t*> spare_;
};

}  // namespace wreath
