// Who may be looking at the host device's memory: its memory is given back when they are done, as cudaFree() does. A
// reader that began before its peer gave up and freed what it sent finds it still there.
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

// Waits for those that live now, not for later ones. Not by a thread that has one.
void await_memory_in_use();

}  // namespace wreath
