// Allocating and guarding the buffers of a measurement.
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

Result<GuardedBuffer> GuardedBuffer::make(std::size_t bytes, std::size_t offset, bool shared) {
  const std::size_t total = bytes + offset + 2 * kGuardBytes;
  GuardedBuffer buffer;
  if (shared) {
    auto memory = allocate(total);
    if (!memory) return memory.error();
    buffer.shared_ = *std::move(memory);
    buffer.start_ = buffer.shared_.data() + kGuardBytes + offset;
    return buffer;
  }
  void* address = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return Error{ErrorCode::System, fmt::format("no memory for a buffer of {} bytes: {}", total, std::strerror(errno))};
  }
  buffer.private_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(address), Unmap{total});
  buffer.start_ = buffer.private_.get() + kGuardBytes + offset;
  std::memset(buffer.private_.get(), 0, total);
  return buffer;
}

void GuardedBuffer::set_guards(std::size_t bytes) const {
  std::fill_n(start_ - kGuardBytes, kGuardBytes, kGuard);
  std::fill_n(start_ + bytes, kGuardBytes, kGuard);
}

std::size_t GuardedBuffer::count_broken_guards(std::size_t bytes) const {
  return count_changed(start_ - kGuardBytes) + count_changed(start_ + bytes);
}

Result<Buffers> Buffers::make(std::size_t bytes, std::size_t offset, bool shared) {
  Buffers buffers;
  for (GuardedBuffer* each : {&buffers.input[0], &buffers.input[1], &buffers.output}) {
    auto made = GuardedBuffer::make(bytes, offset, shared);
    if (!made) return made.error();
    *each = *std::move(made);
  }
  return buffers;
}

}  // namespace wreath::perf
