// Makes the parts that communicators take of devices.
#include "src/device/runs/device_parts.hpp"

#include <algorithm>
#include <memory>

#include "src/device/library_device.hpp"
#include "src/device/runs/device_segment_memory.hpp"
#include "src/device/runs/grid_run.hpp"
#include "src/engine/engine.hpp"
#include "src/executor/block/low_latency_area.hpp"

namespace wreath {

static_assert(kMostLowLatencyBytes == kLowLatencyBytes);

Status has_devices() { return {}; }

EndpointDevice identity_of(const Device* device) {
  return device == nullptr ? EndpointDevice{} : static_cast<const LibraryDevice*>(device)->identity();
}

DeviceSegments device_segments(Device* device, const std::vector<std::string>& transports) {
  const bool allowed =
      transports.empty() || std::find(transports.begin(), transports.end(), kDeviceReach) != transports.end();
  if (device == nullptr || !allowed) return {};
  auto& own = static_cast<LibraryDevice&>(*device);
  return {device_segment_memory(own), [&own](const EndpointDevice& theirs) { return own.reaches(theirs); }};
}

MakeOuterRuns device_runs(Device* device) {
  return [own = static_cast<LibraryDevice*>(device)](Engine& engine) { return std::make_unique<GridRun>(engine, own); };
}

}  // namespace wreath
