// The parts of a communicator that are for devices. A build without devices has them empty (src/device/off).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/engine/run.hpp"
#include "src/membership/links.hpp"
#include "wreath/device.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/result.hpp"

namespace wreath {

// The largest value that Overrides::low_latency_bytes may have.
inline constexpr std::size_t kMostLowLatencyBytes = std::size_t{1} << 20;

// Returns Unavailable in a build without devices.
Status has_devices();

// Returns the identity by which peers know `device`; null stands for no device.
EndpointDevice identity_of(const Device* device);

// Returns the segments that links get for `device`, where `transports` let peers map its memory. Null stands for no
// device, and an empty list for all transports.
DeviceSegments device_segments(Device* device, const std::vector<std::string>& transports);

// Returns what makes the run of operations on memory of a device. Null stands for a rank without a device of its own.
MakeOuterRuns device_runs(Device* device);

}  // namespace wreath
