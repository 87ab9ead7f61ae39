// Network adapters read and write memory of devices by themselves (GPUDirect RDMA). They know it by its dma-buf.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/fd.hpp"
#include "wreath/result.hpp"

namespace wreath {

// A part of a device's memory as a network adapter registers it: [offset, offset + bytes) of a dma-buf.
struct DmaBuf {
  Fd descriptor;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  int device = 0;  // its owner's number among CUDA's
};

// A device does this for adapters.
class DmaBufDevice {
 public:
  virtual ~DmaBufDevice() = default;
  // Returns the dma-buf of the allocation that begins at `begin`. Returns Unavailable where the device has none.
  virtual Result<DmaBuf> dma_buf(const std::byte* begin) = 0;
  // Makes what network adapters have written to this device's memory visible to its kernels and copies that begin, or
  // look, afterwards. Does nothing where the hardware orders such writes.
  virtual Status flush_adapter_writes() = 0;
};

}  // namespace wreath
