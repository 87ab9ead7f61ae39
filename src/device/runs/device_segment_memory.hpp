// Memory of a device for segments: allocations that peers find by id in this process, or import from another.
#pragma once

#include <memory>

#include "src/device/library_device.hpp"
#include "src/fifo/segment_memory.hpp"

namespace wreath {

// `device` lives as long as the process.
std::unique_ptr<SegmentMemory> device_segment_memory(LibraryDevice& device);

}  // namespace wreath
