// Pages are cut into lines, which are taken and given back. The pages stay.
#include "src/device/cuda/pinned_words.hpp"

#include <cstring>

#include "src/device/cuda/context.hpp"

namespace wreath {
namespace {

constexpr std::size_t kPageBytes = 16'384;
constexpr std::size_t kLineBytes = 128;

}  // namespace

Result<std::byte*> allocate_pinned(const CudaContext& context, std::size_t bytes) {
  void* memory = nullptr;
  const CudaResult made = with_context(
      context, [&] { return context.driver.mem_host_alloc(&memory, bytes, kCudaHostPortable | kCudaHostDeviceMap); });
  WREATH_TRY(context.check(made, "cuMemHostAlloc"));
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

PinnedWords::~PinnedWords() {
  for (std::byte* page : pages_) with_context(context_, [&] { return context_.driver.mem_free_host(page); });
}

Status PinnedWords::prepare() {
  const std::lock_guard lock(mutex_);
  return make_page();
}

Status PinnedWords::make_page() {
  const auto page = allocate_pinned(context_, kPageBytes);
  if (!page) return page.error();
  pages_.push_back(*page);
  for (std::size_t at = 0; at < kPageBytes; at += kLineBytes) {
    spare_.push_back(reinterpret_cast<std::uint32_t*>(pages_.back() + at));
  }
  return {};
}

Result<std::uint32_t*> PinnedWords::take() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) WREATH_TRY(make_page());
  std::uint32_t* const line = spare_.back();
  spare_.pop_back();
  line[0] = line[1] = 0;
  return line;
}

void PinnedWords::give(std::uint32_t* line) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(line);
}

}  // namespace wreath
