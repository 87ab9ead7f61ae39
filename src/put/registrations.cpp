// Registers memory with an adapter. An entry has its region's id or its allocation's number, so that memory at the
// address of released memory is never taken for the old.
#include "src/put/registrations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/region.hpp"
#include "wreath/units.hpp"

namespace wreath {

Registrations::Registrations(Adapter& adapter) : adapter_(adapter) { add_release_watcher(*this); }

Registrations::~Registrations() {
  remove_release_watcher(*this);
  for (const auto& [begin, entry] : entries_) {
    if (entry.memory.registration != 0) adapter_.deregister_memory(entry.memory.registration);
  }
}

bool Registrations::look_up(const std::byte* data, std::size_t bytes) {
  const std::uint64_t releases = releases_.load(std::memory_order_acquire);
  const auto offset = static_cast<std::size_t>(data - last_.begin);
  if (last_releases_ == releases && offset < last_.bytes && bytes <= last_.bytes - offset) return true;
  auto entry = registered(data, bytes);
  if (!entry && has_devices_) entry = let_in_at(data, bytes);
  if (!entry) return false;
  last_ = *entry;
  last_releases_ = releases;
  return true;
}

std::optional<RegisteredMemory> Registrations::find(const void* data, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  if (!look_up(first, bytes) || last_.memory.registration == 0) return std::nullopt;
  RegisteredMemory found = last_.memory;
  if (found.remote) found.remote->address += static_cast<std::uint64_t>(first - last_.begin);
  return found;
}

Result<Flusher> Registrations::flush(const void* data) {
  const auto found = has_devices_ ? find(data, 1) : std::nullopt;
  if (!found) return Flusher::None;
  if (found->flusher == Flusher::Device) WREATH_TRY(last_.device->flush_adapter_writes());
  if (found->flusher == Flusher::Adapter) WREATH_TRY(adapter_.flush(*found->remote));
  return found->flusher;
}

// Returns the entry of the same memory. Registers new memory for puts from it and into it, else for puts from it alone.
// The caller holds the lock.
template <typename Register>
const Registrations::Entry& Registrations::made_once(const Entry& wanted, const Register& register_memory) {
  Entry& entry = entries_[wanted.begin];
  if (entry.id == wanted.id && entry.device == wanted.device) return entry;
  entry = wanted;
  Result<RegisteredMemory> made = register_memory(true);
  if (!made) made = register_memory(false);
  bool& told = told_[entry.device == nullptr ? 0 : 1];
  if (made) {
    ++made_;
    entry.memory = *made;
  } else if (!std::exchange(told, true)) {
    log_warning("{}: {} of memory{} cannot be registered, and are copied: {}", adapter_.describe(),
                format_bytes(entry.bytes), entry.device == nullptr ? "" : " of a device", made.error().message);
  }
  return entry;
}

// Returns the entry of the region that holds the memory, and makes it at the region's first use.
std::optional<Registrations::Entry> Registrations::registered(const std::byte* data, std::size_t bytes) {
  const std::shared_ptr<Region> region = find_containing(data, bytes);
  if (region == nullptr) return std::nullopt;
  const std::span memory(region->data(), region->bytes());
  const std::lock_guard lock(mutex_);
  return made_once({region->id(), region->data(), region->bytes(), {}, region->data()},
                   [&](bool remote) -> Result<RegisteredMemory> {
                     const auto made = adapter_.register_memory(memory, remote);
                     if (!made) return made.error();
                     return RegisteredMemory{*made, remote ? std::optional(adapter_.name(*made)) : std::nullopt};
                   });
}

Status Registrations::let_in(const DeviceRange& memory) {
  const std::lock_guard lock(mutex_);
  has_devices_ = true;
  const Entry& entry = made_once({memory.allocation, memory.in_kernels, memory.bytes, {}, memory.begin, memory.device},
                                 [&](bool remote) -> Result<RegisteredMemory> {
                                   const auto buffer = memory.device->dma_buf(memory.begin);
                                   if (!buffer) return buffer.error();
                                   if (remote) return register_for_puts(memory, *buffer);
                                   return adapter_.register_device_memory(*buffer, memory.in_kernels, Flusher::None);
                                 });
  if (entry.memory.registration != 0) return {};
  return Error{ErrorCode::Unavailable, fmt::format("{} has not registered this memory", adapter_.describe())};
}

// Registers memory of a device for peers' puts, where somebody flushes: the device, which does so for all adapters,
// else the adapter.
Result<RegisteredMemory> Registrations::register_for_puts(const DeviceRange& memory, const DmaBuf& buffer) {
  const Status by_device = memory.device->flush_adapter_writes();
  if (by_device) return adapter_.register_device_memory(buffer, memory.in_kernels, Flusher::Device);
  if (by_device.error().code != ErrorCode::Unavailable) return by_device.error();
  const auto made = adapter_.register_device_memory(buffer, memory.in_kernels, Flusher::Adapter);
  const Status by_adapter = made ? adapter_.flush(*made->remote) : Status(made.error());
  if (by_adapter) return made;
  log_info("{}: peers do not put into memory of a device: {}; {}", adapter_.describe(), by_device.error().message,
           by_adapter.error().message);
  if (made) adapter_.deregister_memory(made->registration);
  return by_adapter.error();
}

// Returns the entry of the allocation that holds the memory, where that was let in.
std::optional<Registrations::Entry> Registrations::let_in_at(const std::byte* data, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto above = entries_.upper_bound(data);
  if (above == entries_.begin()) return std::nullopt;
  const Entry& entry = std::prev(above)->second;
  const auto offset = static_cast<std::size_t>(data - entry.begin);
  const bool holds = entry.device != nullptr && offset < entry.bytes && bytes <= entry.bytes - offset;
  return holds ? std::optional(entry) : std::nullopt;
}

std::size_t Registrations::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const auto& each) { return each.second.memory.registration != 0; }));
}

void Registrations::before_release(const std::byte* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const auto& each) { return each.second.released_as == begin; });
  if (found == entries_.end()) return;
  releases_.fetch_add(1, std::memory_order_release);
  const std::uint64_t registration = found->second.memory.registration;
  if (registration != 0) adapter_.deregister_memory(registration);
  entries_.erase(found);
}

}  // namespace wreath
