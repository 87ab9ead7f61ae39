// Allocating, guarding and mirroring the buffers of a measurement.
#include "perf/common/buffers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace wreath::perf {
namespace {

constexpr std::byte kGuard{0xa5};

std::size_t count_changed(const std::byte* guard) {
  return static_cast<std::size_t>(
      std::count_if(guard, guard + kGuardBytes, [](std::byte each) { return each != kGuard; }));
}

}  // namespace

void Unmap::operator()(std::byte* address) const { munmap(address, bytes); }

namespace {

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

Result<GuardedBuffer> GuardedBuffer::make(std::size_t bytes, std::size_t offset, const BufferMemory& memory) {
  const std::size_t before = kGuardBytes + offset;
  const std::size_t total = bytes + before + kGuardBytes;
  GuardedBuffer buffer;
  buffer.bytes_ = bytes;
  if (memory.place == MemoryPlace::Shared) {
    auto shared = allocate(total);
    if (!shared) return shared.error();
    buffer.shared_ = *std::move(shared);
    buffer.start_ = buffer.shared_.data() + before;
    return buffer;
  }
  if (memory.device != nullptr) {
    const bool pinned = memory.place == MemoryPlace::Pinned;
    auto own = memory.device->allocate(total, pinned ? MemoryUse::Pinned : MemoryUse::Exportable);
    if (!own) return own.error();
    buffer.device_memory_ = *std::move(own);
    buffer.device_start_ = buffer.device_memory_.data() + before;
    buffer.start_ = buffer.device_start_;
    if (pinned) return buffer;
    buffer.device_ = memory.device;
  }
  auto mapped = map_private(total);
  if (!mapped) return mapped.error();
  buffer.private_ = *std::move(mapped);
  buffer.start_ = buffer.private_.get() + before;
  return buffer;
}

Status GuardedBuffer::copy(std::size_t bytes, bool to_device) const {
  if (device_ == nullptr) return {};
  std::byte* const device = device_start_ - kGuardBytes;
  std::byte* const mirror = start_ - kGuardBytes;
  return device_->copy(to_device ? device : mirror, to_device ? mirror : device, bytes + 2 * kGuardBytes);
}

std::byte* GuardedBuffer::reached(const std::byte* address) const {
  if (address < start_ || address > start_ + bytes_) return nullptr;
  return (device_ == nullptr ? start_ : device_start_) + (address - start_);
}

Status GuardedBuffer::set_guards(std::size_t bytes) const {
  std::fill_n(start_ - kGuardBytes, kGuardBytes, kGuard);
  std::fill_n(start_ + bytes, kGuardBytes, kGuard);
  return push(bytes);
}

Result<std::size_t> GuardedBuffer::count_broken_guards(std::size_t bytes) const {
  WREATH_TRY(pull(bytes));
  return count_changed(start_ - kGuardBytes) + count_changed(start_ + bytes);
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
  return buffers;
}

std::byte* Buffers::reached(const std::byte* address) const {
  for (const GuardedBuffer* each : {&input[0], &input[1], &output}) {
    if (std::byte* const found = each->reached(address); found != nullptr) return found;
  }
  return const_cast<std::byte*>(address);
}

}  // namespace wreath::perf
