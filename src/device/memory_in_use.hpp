// Keeps memory of devices mapped while somebody may be looking at it, and gives it back afterwards. A reader may have
// begun before its peer gave up and freed what it sent: the reader still finds the memory there. The same is true for
// grids that load it from other devices, for which a driver may not wait.
#pragma once

#include <cstdint>

namespace wreath {

// Keeps memory that is freed from now on mapped while this object lives.
class MemoryInUse {
 public:
  MemoryInUse();
  MemoryInUse(const MemoryInUse&) = delete;
  MemoryInUse& operator=(const MemoryInUse&) = delete;
  ~MemoryInUse();

 private:
  std::uint64_t turn_;
};

// Waits for the objects that live now, not for later ones. A thread that has one must not call this. timeout_ms < 0
// sets no limit.
void await_memory_in_use(std::int64_t timeout_ms = -1);

}  // namespace wreath
