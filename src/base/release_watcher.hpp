// Network adapters register memory. A release watcher ends such a registration before the memory goes.
#pragma once

#include <cstddef>

namespace wreath {

// Gets a call before memory is freed or given back: an allocation of any device, or a region of wreath::allocate or
// wreath::register_memory. For a region that a call in flight uses, the call comes when that use is over. It comes from
// the thread that releases the memory, which holds no lock of the memory's owner. A child of a fork does not call its
// parent's watchers.
class ReleaseWatcher {
 public:
  virtual ~ReleaseWatcher() = default;
  // `begin` is the first byte of the allocation or region.
  virtual void before_release(const std::byte* begin) = 0;
};
void add_release_watcher(ReleaseWatcher& watcher);
void remove_release_watcher(ReleaseWatcher& watcher);
// Calls all watchers. Owners of memory use this.
void tell_release(const std::byte* begin);

}  // namespace wreath
