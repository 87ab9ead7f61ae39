// Registers regions with an adapter. An entry has its region's id, so that memory at the address of released memory is
// never taken for the old.
#include "src/put/registrations.hpp"

#include <algorithm>
#include <memory>
#include <span>

#include "src/base/log.hpp"
#include "src/base/region.hpp"
#include "wreath/units.hpp"

namespace wreath {

Registrations::Registrations(Adapter& adapter) : adapter_(adapter) { add_release_watcher(*this); }

Registrations::~Registrations() {
  remove_release_watcher(*this);
  for (const auto& [begin, entry] : entries_) {
    if (entry.registration != 0) adapter_.deregister_memory(entry.registration);
  }
}

std::optional<RegisteredMemory> Registrations::find(const void* data, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::uint64_t releases = releases_.load(std::memory_order_acquire);
  const auto offset = static_cast<std::size_t>(first - last_.begin);
  const bool known = last_releases_ == releases && offset < last_.bytes && bytes <= last_.bytes - offset;
  if (!known) {
    const auto entry = registered(first, bytes);
    if (!entry) return std::nullopt;
    last_ = *entry;
    last_releases_ = releases;
  }
  if (last_.registration == 0) return std::nullopt;
  const auto at = static_cast<std::uint64_t>(first - last_.begin);
  RegisteredMemory found{last_.registration, last_.remote};
  if (found.remote) found.remote->address += at;
  return found;
}

// Returns the entry of the region that holds the memory, and makes it at the region's first use.
std::optional<Registrations::Entry> Registrations::registered(const std::byte* data, std::size_t bytes) {
  const std::shared_ptr<Region> region = find_containing(data, bytes);
  if (region == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[region->data()];
  if (entry.region == region->id()) return entry;
  entry = {region->id(), region->data(), region->bytes(), 0, {}};
  const std::span memory(region->data(), region->bytes());
  auto made = adapter_.register_memory(memory, true);
  const bool writable = static_cast<bool>(made);
  if (!writable) made = adapter_.register_memory(memory, false);
  if (made) {
    ++made_;
    entry.registration = *made;
    if (writable) entry.remote = adapter_.name(*made);
  } else if (!told_) {
    told_ = true;
    log_warning("{}: {} of memory cannot be registered, and are copied: {}", adapter_.describe(),
                format_bytes(region->bytes()), made.error().message);
  }
  return entry;
}

std::size_t Registrations::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const auto& each) { return each.second.registration != 0; }));
}

void Registrations::before_release(const std::byte* begin) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(begin);
  if (found == entries_.end()) return;
  releases_.fetch_add(1, std::memory_order_release);
  if (found->second.registration != 0) adapter_.deregister_memory(found->second.registration);
  entries_.erase(found);
}

}  // namespace wreath
