// Device memory is two mappings of one memfd. A table leads from the first mapping to the second.
#include "src/device/device_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <string_view>

#include "src/base/memfd.hpp"
#include "src/device/call_memory.hpp"
#include "src/device/memory_in_use.hpp"

namespace wreath {
namespace {

struct Entry {
  std::byte* reachable;
  std::size_t bytes;
  // The descriptor is empty where no other process may map the memory.
  Fd exportable;
  std::uint64_t allocation = 0;
};

struct HostDeviceMemory {
  std::mutex mutex;
  std::map<const std::byte*, Entry> entries;           // by the address that users hold
  std::map<const std::byte*, std::size_t> in_kernels;  // bytes, by the address that kernels use
  std::atomic<std::size_t> count{0};
  std::uint64_t made = 0;
};

// Returns a table that stays reachable until the process ends, because destructors of late objects still use it.
HostDeviceMemory& host_device_memory() {
  static HostDeviceMemory* const instance = new HostDeviceMemory;  // NOLINT(cppcoreguidelines-*): never deleted
  return *instance;
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

constexpr std::string_view kWhat = "device memory";
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

std::byte* keep(std::byte* data, Entry entry) {
  HostDeviceMemory& all = host_device_memory();
  const std::lock_guard lock(all.mutex);
  entry.allocation = ++all.made;
  all.in_kernels[entry.reachable] = entry.bytes;
  all.entries[data] = std::move(entry);
  all.count.store(all.entries.size(), std::memory_order_relaxed);
  may_have_device_memory.store(true, std::memory_order_relaxed);
  return data;
}

// Calls `use(base, entry)` with the allocation that `data` is in, if there is one.
template <typename Use>
void with_entry(const void* data, Use use) {
  HostDeviceMemory& all = host_device_memory();
  // A caller that asks about memory has made that memory before, so it cannot see a stale zero.
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  const auto* first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(all.mutex);
  const auto above = all.entries.upper_bound(first);
  if (above == all.entries.begin()) return;
  const auto& [base, entry] = *std::prev(above);
  if (static_cast<std::size_t>(first - base) < entry.bytes) use(base, entry);
}

Result<std::byte*> map_pinned(std::size_t bytes) {
  WREATH_TRY(check_available(bytes, kWhat));
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return memory_refused(kWhat, bytes, "mmap", errno);
  return keep(static_cast<std::byte*>(data), {static_cast<std::byte*>(data), bytes, Fd(), 0});
}

Result<std::byte*> map_twice(const Fd& memory, std::size_t bytes, int access, Fd exportable) {
  void* reachable = ::mmap(nullptr, bytes, access, MAP_SHARED, memory.get(), 0);
  if (reachable == MAP_FAILED) return memory_refused(kWhat, bytes, "mmap", errno);
  void* hidden = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, memory.get(), 0);
  if (hidden == MAP_FAILED) {
    const int code = errno;
    ::munmap(reachable, bytes);
    return memory_refused(kWhat, bytes, "mmap", code);
  }
  return keep(static_cast<std::byte*>(hidden), {static_cast<std::byte*>(reachable), bytes, std::move(exportable), 0});
}

}  // namespace

Result<std::byte*> map_device_memory(std::size_t bytes, MemoryUse use) {
  const std::size_t size = whole_pages(bytes);
  if (size < bytes) return memory_refused(kWhat, bytes, "mmap", ENOMEM);
  if (use == MemoryUse::Pinned) return map_pinned(size);
  auto memory = make_memfd("wreath-device", size, kWhat);
  if (!memory) return memory.error();
  if (use == MemoryUse::Plain) return map_twice(*memory, size, kReadWrite, Fd());
  WREATH_TRY(seal_size(memory->get(), size, kWhat));
  const Fd mapped(::fcntl(memory->get(), F_DUPFD_CLOEXEC, 0));
  if (!mapped) return memory_refused(kWhat, bytes, "fcntl", errno);
  return map_twice(mapped, size, kReadWrite, *std::move(memory));
}

Result<std::byte*> map_exported_memory(const Fd& descriptor, std::size_t bytes) {
  WREATH_TRY(check_sealed(descriptor.get(), bytes, "a peer's device memory"));
  return map_twice(descriptor, bytes, PROT_READ, Fd());
}

void unmap_device_memory(std::byte* data) {
  HostDeviceMemory& all = host_device_memory();
  Entry entry{};
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.entries.find(data);
    if (found == all.entries.end()) return;
    entry = std::move(found->second);
    all.entries.erase(found);
    all.in_kernels.erase(entry.reachable);
    all.count.store(all.entries.size(), std::memory_order_relaxed);
  }
  await_memory_in_use();
  ::munmap(entry.reachable, entry.bytes);
  if (data != entry.reachable) ::munmap(data, entry.bytes);
}

Result<MemoryExport> export_device_memory(const void* data) {
  MemoryExport exported;
  int refused = 0;
  with_entry(data, [&](const std::byte* base, const Entry& entry) {
    if (!entry.exportable) return;
    exported.descriptor = Fd::of_process(::fcntl(entry.exportable.get(), F_DUPFD_CLOEXEC, 0));
    if (!exported.descriptor) refused = errno;
    exported.bytes = entry.bytes;
    exported.offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base);
  });
  if (exported.descriptor) return exported;
  if (refused != 0) return memory_refused(kWhat, exported.bytes, "fcntl", refused);
  return Error{ErrorCode::InvalidArgument, fmt::format("host device: {} is not exportable memory of its", data)};
}

bool is_exportable_memory(const void* data) noexcept {
  bool exportable = false;
  with_entry(data, [&](const std::byte*, const Entry& entry) { exportable = static_cast<bool>(entry.exportable); });
  return exportable;
}

std::byte* reachable(const void* data, std::size_t bytes) noexcept {
  auto* found = static_cast<std::byte*>(const_cast<void*>(data));
  with_entry(data, [&](const std::byte* base, const Entry& entry) {
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(data) - base);
    if (bytes <= entry.bytes - offset) found = entry.reachable + offset;
  });
  return found;
}

bool is_in_kernels(const void* data, std::size_t bytes) noexcept {
  const auto* first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(host_device_memory().mutex);
  const auto above = host_device_memory().in_kernels.upper_bound(first);
  if (above == host_device_memory().in_kernels.begin()) return false;
  const auto& [base, size] = *std::prev(above);
  const auto offset = static_cast<std::size_t>(first - base);
  return offset <= size && bytes <= size - offset;
}

PointerFacts host_facts_of(const void* data) noexcept {
  PointerFacts facts;
  with_entry(data, [&](const std::byte* base, const Entry& entry) {
    const MemoryKind kind = base == entry.reachable ? MemoryKind::Pinned : MemoryKind::Device;
    facts = {kind, &host_device(), base, entry.bytes, entry.allocation};
  });
  return facts;
}

}  // namespace wreath
