// Makes memory of a device for segments. Peers find its allocations by id in this process, or import them from another
// process.
#pragma once

#include <memory>

#include "src/device/library_device.hpp"
#include "src/fifo/segment_memory.hpp"

namespace wreath {

// Returns the segment memory of `device`, which lives as long as the process.
std::unique_ptr<SegmentMemory> device_segment_memory(LibraryDevice& device);

}  // namespace wreath
