// Who may be looking at memory of devices: it is given back when they are done. A reader that began before its peer
// gave up and freed what it sent finds it still there. So are grids that load it from other devices, for which a driver
// may not wait.
#pragma once

#include <cstdint>

namespace wreath {

// While it lives, memory that is freed from now on stays mapped.
class MemoryInUse {
 public:
  MemoryInUse();
  MemoryInUse(const MemoryInUse&) = delete;
  MemoryInUse& operator=(const MemoryInUse&) = delete;
  ~MemoryInUse();

 private:
  std::uint64_t turn_;
};

// Waits for those that live now, not for later ones. Not by a thread that has one. timeout_ms < 0: without end.
void await_memory_in_use(std::int64_t timeout_ms = -1);

}  // namespace wreath
