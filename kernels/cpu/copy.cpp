// Copies plainly, into slots (fill) and past the caches (stream), compiled per instruction set where that matters.
#include <cstdint>
#include <cstring>

#include "kernels/cpu/string_move.hpp"
#include "kernels/kernels.hpp"
#include "src/base/cpu.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace wreath {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct PlainStore {
  template <class V, class D>
  HWY_INLINE void operator()(V vector, D d, std::uint8_t* target) const {
    hn::StoreU(vector, d, target);
  }
};
struct StorePastCaches {
  template <class V, class D>
  HWY_INLINE void operator()(V vector, D d, std::uint8_t* target) const {
    hn::Stream(vector, d, target);
  }
};

// Copies four vectors that lie so many bytes apart. All loads come before the stores.
template <class D, class Store>
HWY_INLINE void copy_four(D d, std::uint8_t* target, const std::uint8_t* source, std::size_t apart, Store store) {
  const auto a = hn::LoadU(d, source);
  const auto b = hn::LoadU(d, source + apart);
  const auto c = hn::LoadU(d, source + 2 * apart);
  const auto e = hn::LoadU(d, source + 3 * apart);
  store(a, d, target);
  store(b, d, target + apart);
  store(c, d, target + 2 * apart);
  store(e, d, target + 3 * apart);
}

// Copies the whole groups of four pages, side by side, and returns how many bytes these are. An Intel core prefetches
// within a page, each page for itself, so that more lines are on their way at once. The target is aligned to vectors
// where the store needs that.
template <class D, class Store>
std::size_t copy_groups_of_pages(D d, std::uint8_t* target, const std::uint8_t* source, std::size_t bytes,
                                 Store store) {
  constexpr std::size_t kPage = 4096;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t done = 0;
  for (; done + 4 * kPage <= bytes; done += 4 * kPage) {
    for (std::size_t at = done; at < done + kPage; at += lanes) copy_four(d, target + at, source + at, kPage, store);
  }
  return done;
}

void copy_pages(std::byte* target_bytes, const std::byte* source_bytes, std::size_t bytes) {
  auto* target = reinterpret_cast<std::uint8_t*>(target_bytes);
  const auto* source = reinterpret_cast<const std::uint8_t*>(source_bytes);
  const std::size_t done = copy_groups_of_pages(hn::CappedTag<std::uint8_t, 64>(), target, source, bytes, PlainStore());
  std::memcpy(target + done, source + done, bytes - done);
}

// Copies by non-temporal stores of whole vectors. The ends, up to the target's alignment, are plain.
template <bool by_pages>
void copy_past_caches(std::byte* target_bytes, const std::byte* source_bytes, std::size_t bytes) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t unaligned = (0 - reinterpret_cast<std::uintptr_t>(target_bytes)) & (lanes - 1);
  const std::size_t head = unaligned < bytes ? unaligned : bytes;
  std::memcpy(target_bytes, source_bytes, head);
  auto* target = reinterpret_cast<std::uint8_t*>(target_bytes);
  const auto* source = reinterpret_cast<const std::uint8_t*>(source_bytes);
  std::size_t at = head;
  if constexpr (by_pages) at += copy_groups_of_pages(d, target + at, source + at, bytes - at, StorePastCaches());
  for (; at + 4 * lanes <= bytes; at += 4 * lanes) copy_four(d, target + at, source + at, lanes, StorePastCaches());
  std::memcpy(target + at, source + at, bytes - at);
}

void copy_stream(std::byte* target, const std::byte* source, std::size_t bytes) {
  copy_past_caches<false>(target, source, bytes);
}

void copy_stream_pages(std::byte* target, const std::byte* source, std::size_t bytes) {
  copy_past_caches<true>(target, source, bytes);
}

}  // namespace HWY_NAMESPACE
}  // namespace wreath
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace wreath {
namespace {

HWY_EXPORT(copy_stream);
HWY_EXPORT(copy_stream_pages);
HWY_EXPORT(copy_pages);

// Below this size, starting the string move costs more than it saves.
constexpr std::size_t kStringMoveBytes = 1024;
// Below the first size, pages side by side gain nothing. Above the second one targets are beyond the near caches, where
// std::memcpy does not fetch what it overwrites.
constexpr std::size_t kLeastPagesBytes = std::size_t{64} << 10;
constexpr std::size_t kMostPagesBytes = std::size_t{128} << 10;

void copy_plain(std::byte* target, const std::byte* source, std::size_t bytes) { std::memcpy(target, source, bytes); }

void copy_plain_by_pages(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (bytes < kLeastPagesBytes || bytes > kMostPagesBytes) return copy_plain(target, source, bytes);
  HWY_DYNAMIC_DISPATCH(copy_pages)(target, source, bytes);
}

void copy_fill_by_pages(std::byte* target, const std::byte* source, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(copy_pages)(target, source, bytes);
}

void copy_fill(std::byte* target, const std::byte* source, std::size_t bytes) {
  if (bytes < kStringMoveBytes) {
    std::memcpy(target, source, bytes);
  } else {
    move_string(target, source, bytes);
  }
}

void copy_stream_best(std::byte* target, const std::byte* source, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(copy_stream)(target, source, bytes);
}

void copy_stream_best_by_pages(std::byte* target, const std::byte* source, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(copy_stream_pages)(target, source, bytes);
}

void end_stream() { hwy::FlushStream(); }

}  // namespace

// On an AMD (Zen 5) pages side by side take twice as long.
CopyKernels copy_kernels_of(std::string_view vendor) noexcept {
  const bool by_pages = vendor == "GenuineIntel";
  return {.plain = by_pages ? copy_plain_by_pages : copy_plain,
          .fill = has_fast_string_move() ? copy_fill : copy_plain,
          .fill_pages = by_pages ? copy_fill_by_pages : nullptr,
          .stream = by_pages ? copy_stream_best_by_pages : copy_stream_best,
          .end_stream = end_stream};
}

const CopyKernels& copy_kernels() noexcept {
  static const CopyKernels kernels = copy_kernels_of(cpu_vendor());
  return kernels;
}

}  // namespace wreath
#endif  // HWY_ONCE
