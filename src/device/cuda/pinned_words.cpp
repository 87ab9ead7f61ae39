// Pages are cut into lines, which come and go; the pages stay.
#include "src/device/cuda/pinned_words.hpp"

#include <cstring>

#include "src/device/cuda/context.hpp"

namespace wreath {
namespace {

constexpr std::size_t kPageBytes = 16'384;
constexpr std::size_t kLineBytes = 128;

}  // namespace

PinnedWords::~PinnedWords() {
  for (std::byte* page : pages_) with_context(context_, [&] { return context_.driver.mem_free_host(page); });
}

Status PinnedWords::prepare() {
  const std::lock_guard lock(mutex_);
  return make_page();
}

Status PinnedWords::make_page() {
  void* page = nullptr;
  WREATH_TRY(context_.check(with_context(context_,
                                         [&] {
                                           return context_.driver.mem_host_alloc(
                                               &page, kPageBytes, kCudaHostPortable | kCudaHostDeviceMap);
                                         }),
                            "cuMemHostAlloc"));
  pages_.push_back(static_cast<std::byte*>(page));
  for (std::size_t at = 0; at < kPageBytes; at += kLineBytes) {
    spare_.push_back(reinterpret_cast<std::uint32_t*>(pages_.back() + at));
  }
  return {};
}

Result<std::uint32_t*> PinnedWords::take() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) WREATH_TRY(make_page());
  std::uint32_t* const word = spare_.back();
  spare_.pop_back();
  *word = 0;
  return word;
}

void PinnedWords::give(std::uint32_t* word) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(word);
}

}  // namespace wreath
