// StagedBuffers has buffers of a call whose memory is a device's but which host code works on. It copies them to pinned
// memory before the call, and back after it.
#pragma once

#include <cstddef>
#include <vector>

#include "src/device/library_device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// The driver alone uses it, for one call after the other: clear(), add() for all buffers, copy_in(), at(), then
// copy_back() or clear(). It keeps all its memory until its end, even memory that was too small.
class StagedBuffers {
 public:
  void clear() { pieces_.clear(); }
  bool empty() const { return pieces_.empty(); }
  // Adds a buffer. Memory of the host stays where it is. `written` says that the call writes the buffer. Buffers that
  // overlap have one copy. Null and empty buffers are ignored.
  void add(std::byte* data, std::size_t bytes, bool written);
  // Copies all buffers, even those that the call writes, since it may write only parts of them.
  Status copy_in();
  // Returns the address of `data` until the end of the call, where `data` is in a buffer that was added.
  std::byte* at(const std::byte* data) const;
  // Copies back the buffers that the call writes.
  Status copy_back();

 private:
  struct Piece {
    LibraryDevice* device;
    std::byte* data;
    std::size_t bytes;
    bool written;
    std::byte* place;
  };

  std::vector<Piece> pieces_;
  DeviceMemory memory_;  // pinned
  std::vector<DeviceMemory> outgrown_;
};

}  // namespace wreath
