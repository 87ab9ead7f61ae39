// Two mappings of one memfd, and the table from the first to the second.
#include "src/device/device_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <string_view>

#include "src/base/memfd.hpp"

namespace wreath {
namespace {

struct Entry {
  std::byte* reachable;
  std::size_t bytes;
};

struct Table {
  std::mutex mutex;
  std::map<const std::byte*, Entry> entries;  // by the inaccessible address
  std::atomic<std::size_t> count{0};
};

// Reachable until the process ends: destructors of late objects still use it.
Table& table() {
  static Table* const instance = new Table;  // NOLINT(cppcoreguidelines-*): never deleted
  return *instance;
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

constexpr std::string_view kWhat = "device memory";

// The second address, null where the range is not device memory.
std::byte* find(const void* data, std::size_t bytes) noexcept {
  Table& all = table();
  // Who made the memory that it asks about has made it before: a stale zero cannot be seen.
  if (all.count.load(std::memory_order_relaxed) == 0) return nullptr;
  const auto* first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(all.mutex);
  const auto above = all.entries.upper_bound(first);
  if (above == all.entries.begin()) return nullptr;
  const auto& [base, entry] = *std::prev(above);
  const auto offset = static_cast<std::size_t>(first - base);
  if (offset > entry.bytes || bytes > entry.bytes - offset) return nullptr;
  return entry.reachable + offset;
}

}  // namespace

Result<std::byte*> map_device_memory(std::size_t bytes) {
  const std::size_t size = whole_pages(bytes);
  const auto memory = make_memfd("wreath-device", size, kWhat);
  if (!memory) return memory.error();
  void* reachable = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->get(), 0);
  if (reachable == MAP_FAILED) return memory_refused(kWhat, bytes, "mmap", errno);
  void* hidden = ::mmap(nullptr, size, PROT_NONE, MAP_SHARED, memory->get(), 0);
  if (hidden == MAP_FAILED) {
    const int code = errno;
    ::munmap(reachable, size);
    return memory_refused(kWhat, bytes, "mmap", code);
  }
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.entries[static_cast<std::byte*>(hidden)] = {static_cast<std::byte*>(reachable), size};
  all.count.store(all.entries.size(), std::memory_order_relaxed);
  return static_cast<std::byte*>(hidden);
}

void unmap_device_memory(std::byte* data, std::size_t bytes) {
  Table& all = table();
  const std::size_t size = whole_pages(bytes);
  std::byte* reachable = nullptr;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.entries.find(data);
    if (found == all.entries.end()) return;
    reachable = found->second.reachable;
    all.entries.erase(found);
    all.count.store(all.entries.size(), std::memory_order_relaxed);
  }
  ::munmap(reachable, size);
  ::munmap(data, size);
}

std::byte* reachable(const void* data, std::size_t bytes) noexcept {
  std::byte* const second = find(data, bytes);
  return second != nullptr ? second : static_cast<std::byte*>(const_cast<void*>(data));
}

}  // namespace wreath
