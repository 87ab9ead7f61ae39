// Manages memory that ranks share, by a table of the whole process. A region is mapped once per process: ranks that are
// threads of one process share its addresses. The last holder's release unmaps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Frees a region's memory, where that is not mapped memory of the host.
class RegionOwner {
 public:
  virtual ~RegionOwner() = default;
  // Returns whether the memory is the host's: then its region is found by its address, too. A device's memory may go
  // before the region does.
  virtual bool in_host() const { return true; }
};

// The size of memory to be made, rounded up to pages. Of the last `later` bytes those on whole pages become present by
// Region::make_present() alone.
struct RegionSize {
  RegionSize(std::size_t all, std::size_t of_later = 0)  // NOLINT(google-explicit-constructor)
      : bytes(all), later(of_later) {}
  std::size_t bytes;
  std::size_t later;
};

class Region {
 public:
  // Makes memory that is page-aligned and zero-filled, with every page present but for the later ones. Shareable memory
  // has a descriptor, sealed against resizing. `what` names the memory in errors ("staging memory"). A System error
  // names the refused call.
  static Result<std::shared_ptr<Region>> create(RegionSize size, bool shareable, std::string_view what);
  // Makes all pages present. Fails with System when memory is refused; a later call tries again.
  Status make_present(std::string_view what);

  // Returns a peer's region: the one that this process already holds as `id`, else a new mapping that is read only.
  // `bytes` must be its exact size and the memory sealed. Nothing is mapped on error. The call takes the descriptor;
  // without one only regions of this process are found. The first caller that maps the region gives it its `doorbell`.
  static Result<std::shared_ptr<Region>> open(std::uint64_t id, std::uint64_t bytes, Fd descriptor, Fd doorbell = Fd());

  // Makes a region of memory of another kind, which is freed with `owner`. A null `owner` means that the memory belongs
  // to other code.
  static std::shared_ptr<Region> hold(std::uint64_t id, std::byte* base, std::size_t bytes,
                                      std::unique_ptr<RegionOwner> owner);
  // Returns the living region `id` of this process; null where there is none.
  static std::shared_ptr<Region> find(std::uint64_t id);
  // Returns the living region of this process that holds the byte at `data`; null where there is none.
  static std::shared_ptr<Region> find_at(const void* data);

  // Replaces the caller's private pages [data, data + bytes) in place by a region with their contents. The range is
  // whole pages. Fails with System when refused: nothing has changed then.
  static Result<std::shared_ptr<Region>> take_over(std::byte* data, std::size_t bytes);
  // Ends a region of take_over(): the addresses hold private memory with the same contents again, and are the caller's.
  // Peers in other processes keep what they still map.
  void give_back();

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  std::uint64_t id() const { return id_; }
  std::size_t bytes() const { return bytes_; }
  // Returns the memory, which is writable only by the process that created it, but for the pages of let_write().
  std::byte* data() const { return base_; }
  bool is_writable() const { return writable_; }
  // Lets this process write these whole pages of a peer's memory, too. Fails with System when that is refused.
  Status let_write(std::size_t begin, std::size_t bytes) const;
  // Returns the owner that hold() got; null where there is none.
  RegionOwner* owner() const { return owner_.get(); }
  // Returns the memory's descriptor, or -1 where it is not shareable or is mapped from a peer.
  int descriptor() const { return descriptor_.get(); }

  // Gives the pages of own shareable memory back at once, though peers may still map it: they then read zeros, without
  // a fault. Does nothing in a forked child, which shares the pages with its parent.
  void discard();

  // Frees the region for the program. It is released at once, or when the last call in flight that uses it is over:
  // the release watchers hear of it, and its memory is discarded.
  void free();

  // Sets an eventfd that wakes the owner. Callers set it before any peer gets the region's name.
  void set_doorbell(Fd doorbell) { doorbell_ = std::move(doorbell); }
  int doorbell() const { return doorbell_.get(); }

 private:
  friend class RegionUse;
  void release();
  Region(std::uint64_t id, std::byte* base, std::size_t bytes, Fd descriptor, bool writable);
  friend class RegionTable;
  std::uint64_t id_;
  std::byte* base_;
  std::size_t bytes_;
  Fd descriptor_;
  Fd doorbell_;
  bool writable_;
  // Counts the uses by calls in flight.
  std::atomic<int> uses_ = 0;
  std::size_t later_ = 0;  // the bytes at the end that are not present yet
  // Says that the program has freed it.
  std::atomic<bool> freed_ = false;
  // Is true where the addresses belong to other code.
  bool borrowed_ = false;
  std::unique_ptr<RegionOwner> owner_;
};

// Makes find_containing() find the region, until take_user_memory() removes it.
void keep_user_memory(std::shared_ptr<Region> region);
// Removes the region at `base` and returns it; null when it is not there.
std::shared_ptr<Region> take_user_memory(const std::byte* base);

// Says that a call in flight uses a region: it stays where it is, with its contents, until the call is over.
class RegionUse {
 public:
  explicit RegionUse(std::shared_ptr<Region> region);
  RegionUse(RegionUse&&) noexcept = default;
  RegionUse& operator=(RegionUse&&) = delete;
  ~RegionUse();

 private:
  std::shared_ptr<Region> region_;
};

// Returns the living region made by wreath::allocate or wreath::register_memory that holds [data, data + bytes); null
// if there is none.
std::shared_ptr<Region> find_containing(const void* data, std::size_t bytes);

// Returns how many regions this process knows now.
std::size_t region_count();

// Returns a random number that is never 0.
std::uint64_t random_id();

}  // namespace wreath
