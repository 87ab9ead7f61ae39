// Buffers of a call that the host's code is to work on, where they are memory of a device: copied to pinned memory
// before, and back after.
#pragma once

#include <cstddef>
#include <vector>

#include "src/device/library_device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// One call after the other: clear(), add() all, copy_in(), at(), then copy_back() or clear(). The driver's alone. Keeps
// its memory, also what was too small, until it ends.
class StagedBuffers {
 public:
  void clear() { pieces_.clear(); }
  bool empty() const { return pieces_.empty(); }
  // Memory of a device, or the host's, which stays where it is; `written` by the call. Buffers that overlap have one
  // copy. Null and nothing are left out.
  void add(std::byte* data, std::size_t bytes, bool written);
  // Copies all; also what is written, of which a call may leave parts.
  Status copy_in();
  // Where [data, ...) of what was added is until the end of the call.
  std::byte* at(const std::byte* data) const;
  // Copies back what is written.
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
