// Memory that ranks share, and the process-wide table of it. A region is mapped once per process:
// ranks that are threads of one process share its addresses. The last holder's release unmaps it.
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
  // Of the host's is found by its address, too. Of a device's it may go before the region does.
  virtual bool in_host() const { return true; }
};

class Region {
 public:
  // New memory: page-aligned, zero-filled, every page present; `bytes` rounded up to pages. Shareable
  // memory has a descriptor, sealed against resizing. `what` names it in errors ("staging memory").
  // System error naming the refused call.
  static Result<std::shared_ptr<Region>> create(std::size_t bytes, bool shareable, std::string_view what);

  // A peer's region: found when this process already holds `id`, else mapped read only. `bytes` must be
  // its exact size and the memory sealed. Nothing is mapped on error. Takes the descriptor; without one
  // only regions of this process are found. The first who maps it keeps `doorbell`.
  static Result<std::shared_ptr<Region>> open(std::uint64_t id, std::uint64_t bytes, Fd descriptor, Fd doorbell = Fd());

  // Memory of another kind, freed with `owner`, which may be null: it is somebody else's.
  static std::shared_ptr<Region> hold(std::uint64_t id, std::byte* base, std::size_t bytes,
                                      std::unique_ptr<RegionOwner> owner);
  // The living region of this process; null where there is none.
  static std::shared_ptr<Region> find(std::uint64_t id);
  // The living region of this process that holds the byte at `data`; null where there is none.
  static std::shared_ptr<Region> find_at(const void* data);

  // The caller's private pages [data, data + bytes), replaced in place by a region with their contents. Whole pages.
  // System when refused: nothing has changed then.
  static Result<std::shared_ptr<Region>> take_over(std::byte* data, std::size_t bytes);
  // Of such a region: the addresses hold private memory with the same contents again, and are the caller's. What peers
  // in other processes still map, they keep.
  void give_back();

  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  std::uint64_t id() const { return id_; }
  std::size_t bytes() const { return bytes_; }
  // Writable only by who created it.
  std::byte* data() const { return base_; }
  bool is_writable() const { return writable_; }
  // Of what was made by hold().
  RegionOwner* owner() const { return owner_.get(); }
  // The memory's descriptor, -1 where it is not shareable or mapped from a peer.
  int descriptor() const { return descriptor_.get(); }

  // Gives the pages of own shareable memory back at once, though peers may still map it: they then read
  // zeros, without a fault. Nothing in a forked child, which shares the pages with its parent.
  void discard();

  // The program frees it: it is discarded at once, or when the last call in flight that uses it is over.
  void free();

  // An eventfd that wakes the owner. Set before the region is named to anyone.
  void set_doorbell(Fd doorbell) { doorbell_ = std::move(doorbell); }
  int doorbell() const { return doorbell_.get(); }

 private:
  friend class RegionUse;
  Region(std::uint64_t id, std::byte* base, std::size_t bytes, Fd descriptor, bool writable);
  friend class RegionTable;
  std::uint64_t id_;
  std::byte* base_;
  std::size_t bytes_;
  Fd descriptor_;
  Fd doorbell_;
  bool writable_;
  std::atomic<int> uses_ = 0;        // by calls in flight
  std::atomic<bool> freed_ = false;  // by the program
  bool borrowed_ = false;            // the addresses are somebody else's
  std::unique_ptr<RegionOwner> owner_;
};

// Makes find_containing() find it, until it is taken out.
void keep_user_memory(std::shared_ptr<Region> region);
// Null when it is not there.
std::shared_ptr<Region> take_user_memory(const std::byte* base);

// A call in flight uses a region: it stays where it is, with its contents, until the call is over.
class RegionUse {
 public:
  explicit RegionUse(std::shared_ptr<Region> region);
  RegionUse(RegionUse&&) noexcept = default;
  RegionUse& operator=(RegionUse&&) = delete;
  ~RegionUse();

 private:
  std::shared_ptr<Region> region_;
};

// The living region made by wreath::allocate or wreath::register_memory that holds [data, data + bytes); null if none.
std::shared_ptr<Region> find_containing(const void* data, std::size_t bytes);

// Regions known in this process now.
std::size_t region_count();

// Random, never 0.
std::uint64_t random_id();

}  // namespace wreath
