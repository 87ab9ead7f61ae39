// Allocates, fills and guards the buffers of a measurement.
#include "perf/common/buffers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace wreath::perf {
namespace {

constexpr std::byte kGuard{0xa5};

Result<std::unique_ptr<std::byte, Unmap>> map_private(std::size_t total) {
  void* address = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return Error{ErrorCode::System, fmt::format("no memory for a buffer of {} bytes: {}", total, std::strerror(errno))};
  }
  std::unique_ptr<std::byte, Unmap> mapped(static_cast<std::byte*>(address), Unmap{total});
  std::memset(mapped.get(), 0, total);
  return mapped;
}

}  // namespace

void Unmap::operator()(std::byte* address) const { munmap(address, bytes); }

Result<GuardedBuffer> GuardedBuffer::make(std::size_t bytes, std::size_t offset, const BufferMemory& memory) {
  const std::size_t before = kGuardBytes + offset;
  const std::size_t total = bytes + before + kGuardBytes;
  GuardedBuffer buffer;
  if (memory.place == MemoryPlace::Shared) {
    auto shared = allocate(total);
    if (!shared) return shared.error();
    buffer.shared_ = *std::move(shared);
    buffer.start_ = buffer.shared_.data() + before;
  } else if (memory.device != nullptr) {
    const bool pinned = memory.place == MemoryPlace::Pinned;
    auto own = memory.device->allocate(total, pinned ? MemoryUse::Pinned : MemoryUse::Exportable);
    if (!own) return own.error();
    buffer.device_memory_ = *std::move(own);
    buffer.start_ = buffer.device_memory_.data() + before;
  } else {
    auto mapped = map_private(total);
    if (!mapped) return mapped.error();
    buffer.private_ = *std::move(mapped);
    buffer.start_ = buffer.private_.get() + before;
  }
  return buffer;
}

Result<Buffers> Buffers::make(std::size_t bytes, std::size_t offset, const BufferMemory& memory) {
  Buffers buffers;
  for (GuardedBuffer* each : {&buffers.input[0], &buffers.input[1], &buffers.output}) {
    auto made = GuardedBuffer::make(bytes, offset, memory);
    if (!made) return made.error();
    *each = *std::move(made);
  }
  if (memory.device == nullptr) return buffers;
  auto stream = memory.device->make_stream();
  if (!stream) return stream.error();
  buffers.stream = *std::move(stream);
  auto patterns = DevicePatterns::make(*buffers.stream);
  if (!patterns && (memory.checked || patterns.error().code != ErrorCode::Unavailable)) return patterns.error();
  if (patterns) buffers.patterns = *std::move(patterns);
  return buffers;
}

Status Buffers::fill(std::span<std::byte> target, const Pattern& pattern, std::size_t first) const {
  if (patterns != nullptr) return patterns->fill(target, pattern, first);
  if (stream == nullptr) pattern.fill(target, first);
  return {};
}

Result<std::uint64_t> Buffers::count_wrong(std::span<const std::byte> data, const Pattern& pattern,
                                           std::size_t first) const {
  if (patterns != nullptr) return patterns->count_wrong(data, pattern, first);
  return stream == nullptr ? pattern.count_wrong(data, first) : std::uint64_t{0};
}

Status Buffers::set_guards(const GuardedBuffer& buffer, std::size_t bytes) const {
  const Pattern guard = repeated(kGuard);
  for (const std::span<std::byte> each : buffer.guards(bytes)) WREATH_TRY(fill(each, guard));
  return {};
}

Result<std::uint64_t> Buffers::count_broken_guards(const GuardedBuffer& buffer, std::size_t bytes) const {
  const Pattern guard = repeated(kGuard);
  std::uint64_t broken = 0;
  for (const std::span<std::byte> each : buffer.guards(bytes)) {
    const auto changed = count_wrong(each, guard);
    if (!changed) return changed.error();
    broken += *changed;
  }
  return broken;
}

}  // namespace wreath::perf
