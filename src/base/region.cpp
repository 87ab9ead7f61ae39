// Makes regions, which are memfds whose lack of memory is an error at creation. A table maps each of them once in a
// process.
#include "src/base/region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "src/base/memfd.hpp"
#include "src/base/random.hpp"
#include "src/base/release_watcher.hpp"
#include "wreath/memory.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace wreath {

// Holds the regions of this process by id and by address, and those of wreath::allocate and register_memory. A Region
// must never be released with a lock held: its destructor takes one.
class RegionTable {
 public:
  // Returns the table, which is there until the process ends: destructors of late objects still use it.
  static RegionTable& get() {
    static RegionTable* const table = new RegionTable;  // NOLINT(cppcoreguidelines-*): never deleted
    return *table;
  }

  std::shared_ptr<Region> add(std::uint64_t id, std::byte* base, std::size_t bytes, Fd descriptor) {
    std::shared_ptr<Region> region(new Region(id, base, bytes, std::move(descriptor), true));
    const std::lock_guard lock(mutex_);
    insert(region);
    return region;
  }

  // Adds a region that is found by its id alone.
  std::shared_ptr<Region> add_unplaced(std::uint64_t id, std::byte* base, std::size_t bytes) {
    std::shared_ptr<Region> region(new Region(id, base, bytes, Fd(), true));
    const std::lock_guard lock(mutex_);
    by_id_[id] = region;
    return region;
  }

  // Returns the region `id` if it lives, else what `map` makes of it. There is one mapping even if two threads ask at
  // once.
  template <typename Map>
  Result<std::shared_ptr<Region>> find_or_map(std::uint64_t id, std::size_t bytes, Map map, Fd doorbell) {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found != by_id_.end()) {
      if (std::shared_ptr<Region> region = found->second.lock()) return region;
    }
    Result<std::byte*> base = map();
    if (!base) return base.error();
    std::shared_ptr<Region> region(new Region(id, *base, bytes, Fd(), false));
    region->set_doorbell(std::move(doorbell));
    insert(region);
    return region;
  }

  std::shared_ptr<Region> find(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second.lock();
  }

  std::shared_ptr<Region> find_at(const std::byte* data) {
    std::shared_ptr<Region> region;
    {
      const std::lock_guard lock(mutex_);
      const auto above = by_address_.upper_bound(data);
      if (above != by_address_.begin()) region = std::prev(above)->second.lock();
    }
    const bool holds = region != nullptr && static_cast<std::size_t>(data - region->data()) < region->bytes();
    return holds ? region : nullptr;
  }

  // Notes that the region's memory is at `base` from now on, where no other region is.
  void move(Region& region, std::byte* base) {
    const std::lock_guard lock(mutex_);
    auto entry = by_address_.extract(region.base_);
    region.base_ = base;
    entry.key() = base;
    by_address_.insert(std::move(entry));
  }

  // Removes only entries that died: the id may have been mapped anew meanwhile, or other memory be at the address.
  void forget(std::uint64_t id, const std::byte* base) {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found != by_id_.end() && found->second.expired()) by_id_.erase(found);
    const auto at = by_address_.find(base);
    if (at != by_address_.end() && at->second.expired()) by_address_.erase(at);
  }

  void keep_user_memory(std::shared_ptr<Region> region) {
    const std::lock_guard lock(user_mutex_);
    const std::byte* const base = region->data();
    user_memory_.emplace(base, std::move(region));
    user_count_.store(user_memory_.size(), std::memory_order_relaxed);
  }

  std::shared_ptr<Region> take_user_memory(const std::byte* base) {
    const std::lock_guard lock(user_mutex_);
    const auto found = user_memory_.find(base);
    if (found == user_memory_.end()) return nullptr;
    std::shared_ptr<Region> taken = std::move(found->second);
    user_memory_.erase(found);
    user_count_.store(user_memory_.size(), std::memory_order_relaxed);
    return taken;
  }

  std::shared_ptr<Region> containing(const std::byte* data, std::size_t bytes) {
    // The memory in question was made before this call, so a stale zero cannot be seen.
    if (user_count_.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::lock_guard lock(user_mutex_);
    auto above = user_memory_.upper_bound(data);
    if (above == user_memory_.begin()) return nullptr;
    const std::shared_ptr<Region>& region = std::prev(above)->second;
    const std::size_t offset = static_cast<std::size_t>(data - region->data());
    if (offset > region->bytes() || bytes > region->bytes() - offset) return nullptr;
    // In a child, a region of its parent is memory like any other.
    return region->descriptor() < 0 ? nullptr : region;
  }

  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return by_id_.size();
  }

 private:
  void insert(const std::shared_ptr<Region>& region) { by_id_[region->id()] = by_address_[region->data()] = region; }

  // The lock is held while a peer's memory is mapped, which takes long when it is large.
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::weak_ptr<Region>> by_id_;
  std::map<const std::byte*, std::weak_ptr<Region>> by_address_;
  std::mutex user_mutex_;
  std::map<const std::byte*, std::shared_ptr<Region>> user_memory_;
  std::atomic<std::size_t> user_count_{0};
};

Region::Region(std::uint64_t id, std::byte* base, std::size_t bytes, Fd descriptor, bool writable)
    : id_(id), base_(base), bytes_(bytes), descriptor_(std::move(descriptor)), writable_(writable) {}

void Region::discard() {
  if (!descriptor_) return;
  ::fallocate(descriptor_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes_));
}

// In a forked child the adapters are its parent's, as the memory is.
void Region::release() {
  if (!descriptor_) return;
  tell_release(base_);
  if (!borrowed_) discard();
}

void Region::free() {
  freed_ = true;
  if (uses_ == 0) release();
}

RegionUse::RegionUse(std::shared_ptr<Region> region) : region_(std::move(region)) { ++region_->uses_; }

// The thread that frees sets `freed_` first and then looks at `uses_`: one of the two threads sees the other.
RegionUse::~RegionUse() {
  if (region_ != nullptr && --region_->uses_ == 0 && region_->freed_) region_->release();
}

Region::~Region() {
  RegionTable::get().forget(id_, base_);
  if (!borrowed_) ::munmap(base_, bytes_);
}

namespace {

// Makes the pages of a mapping present. A kernel before 5.14 says EINVAL, and makes them present at their first use.
Status populate(std::byte* base, std::size_t bytes, std::string_view what) {
  if (::madvise(base, bytes, MADV_POPULATE_WRITE) == 0 || errno == EINVAL) return {};
  return memory_refused(what, bytes, "madvise(MADV_POPULATE_WRITE)", errno);
}

}  // namespace

Result<std::shared_ptr<Region>> Region::create(RegionSize size, bool shareable, std::string_view what) {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto [bytes, later] = size;
  if (bytes == 0 || bytes > static_cast<std::size_t>(PTRDIFF_MAX) - page) {
    return Error{ErrorCode::InvalidArgument, fmt::format("cannot get {} bytes of {}", bytes, what)};
  }
  bytes = (bytes + page - 1) / page * page;
  later = later / page * page;
  Fd descriptor;
  if (shareable) {
    Result<Fd> made = make_memfd("wreath", bytes, what, later);
    if (!made) return made.error();
    descriptor = *std::move(made);
    WREATH_TRY(seal_size(descriptor.get(), bytes, what));
  } else {
    WREATH_TRY(check_available(bytes, what));
  }
  const int flags = (later == 0 ? MAP_POPULATE : 0) | (shareable ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor.get(), 0);
  if (base == MAP_FAILED) return memory_refused(what, bytes, "mmap", errno);
  std::shared_ptr<Region> region =
      RegionTable::get().add(random_id(), static_cast<std::byte*>(base), bytes, std::move(descriptor));
  region->later_ = later;
  // MAP_POPULATE does not report errors; this call does.
  if (!shareable || later > 0) WREATH_TRY(populate(region->base_, bytes - later, what));
  return region;
}

Status Region::make_present(std::string_view what) {
  if (later_ == 0) return {};
  const std::size_t begin = bytes_ - later_;
  WREATH_TRY(check_available(later_, what));
  if (descriptor_) WREATH_TRY(wreath::make_present(descriptor_.get(), begin, bytes_, what));
  WREATH_TRY(populate(base_ + begin, later_, what));
  later_ = 0;
  return {};
}

Status Region::let_write(std::size_t begin, std::size_t bytes) const {
  if (writable_) return {};
  if (::mprotect(base_ + begin, bytes, PROT_READ | PROT_WRITE) == 0) return {};
  return memory_refused("a peer's region", bytes, "mprotect", errno);
}

std::shared_ptr<Region> Region::hold(std::uint64_t id, std::byte* base, std::size_t bytes,
                                     std::unique_ptr<RegionOwner> owner) {
  RegionTable& table = RegionTable::get();
  const bool of_host = owner == nullptr || owner->in_host();
  std::shared_ptr<Region> region = of_host ? table.add(id, base, bytes, Fd()) : table.add_unplaced(id, base, bytes);
  region->borrowed_ = true;
  region->owner_ = std::move(owner);
  return region;
}

std::shared_ptr<Region> Region::find(std::uint64_t id) { return RegionTable::get().find(id); }

std::shared_ptr<Region> Region::find_at(const void* data) {
  return RegionTable::get().find_at(static_cast<const std::byte*>(data));
}

Result<std::shared_ptr<Region>> Region::take_over(std::byte* data, std::size_t bytes) {
  Result<std::shared_ptr<Region>> made = create(bytes, true, "shareable memory (wreath::register_memory)");
  if (!made) return made.error();
  Region& region = **made;
  std::memcpy(region.base_, data, bytes);
  if (::mremap(region.base_, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data) == MAP_FAILED) {
    return memory_refused("shareable memory (wreath::register_memory)", bytes, "mremap", errno);
  }
  RegionTable::get().move(region, data);
  region.borrowed_ = true;
  return made;
}

void Region::give_back() {
  free();
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  void* const copy = ::mmap(nullptr, bytes_, kAccess, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (copy != MAP_FAILED) {
    std::memcpy(copy, base_, bytes_);
    if (::mremap(copy, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, base_) != MAP_FAILED) return discard();
    ::munmap(copy, bytes_);
  }
  // Without memory for a copy these are the same pages, which are copied one by one when they are written.
  ::mmap(base_, bytes_, kAccess, MAP_PRIVATE | MAP_FIXED, descriptor_.get(), 0);
}

Result<std::shared_ptr<Region>> Region::open(std::uint64_t id, std::uint64_t bytes, Fd descriptor, Fd doorbell) {
  const auto map = [&]() -> Result<std::byte*> {
    if (!descriptor) {
      return Error{ErrorCode::Unavailable, fmt::format("region {:016x} is not of this process", id)};
    }
    WREATH_TRY(check_sealed(descriptor.get(), bytes, "a peer's region"));
    // The pages are present with the owner, and come here when they are read: of a peer of many ranks that is little.
    void* const base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor.get(), 0);
    if (base == MAP_FAILED) return memory_refused("a peer's region", bytes, "mmap", errno);
    return static_cast<std::byte*>(base);
  };
  Result<std::shared_ptr<Region>> region = RegionTable::get().find_or_map(id, bytes, map, std::move(doorbell));
  if (region && (*region)->bytes() != bytes) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("region {:016x} has {} bytes where {} were announced", id, (*region)->bytes(), bytes)};
  }
  return region;
}

void keep_user_memory(std::shared_ptr<Region> region) { RegionTable::get().keep_user_memory(std::move(region)); }

std::shared_ptr<Region> take_user_memory(const std::byte* base) { return RegionTable::get().take_user_memory(base); }

std::shared_ptr<Region> find_containing(const void* data, std::size_t bytes) {
  return RegionTable::get().containing(static_cast<const std::byte*>(data), bytes);
}

std::size_t region_count() { return RegionTable::get().count(); }

std::uint64_t random_id() {
  std::uint64_t id = 0;
  while (id == 0) id = random_u64();
  return id;
}

Result<Memory> allocate(std::size_t bytes) {
  Result<std::shared_ptr<Region>> region = Region::create(bytes, true, "shareable memory (wreath::allocate)");
  if (!region) return region.error();
  const std::span<std::byte> span((*region)->data(), bytes);
  keep_user_memory(*std::move(region));
  return Memory(span);
}

Memory::~Memory() {
  if (bytes_.empty()) return;
  if (const std::shared_ptr<Region> region = take_user_memory(bytes_.data())) region->free();
}

}  // namespace wreath
