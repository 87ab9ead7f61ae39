// A device's streams wait for these words of pinned memory. The pages of the words stay: to make or free such memory
// may wait for all streams. A program's streams come and go while other streams wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "src/device/cuda/driver.hpp"

namespace wreath {

struct CudaContext;

// Allocates zero-filled pinned memory for all devices. The caller frees it by cuMemFreeHost.
Result<std::byte*> allocate_pinned(const CudaContext& context, std::size_t bytes);

class PinnedWords {
 public:
  explicit PinnedWords(const CudaContext& context) : context_(context) {}
  // Frees the pages. Nobody may have a word of them any more.
  ~PinnedWords();
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;

  // Makes the first page.
  Status prepare();
  // Returns a cache line whose first two words are 0.
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
