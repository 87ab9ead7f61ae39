// The parts of a communicator that are for devices. A build without devices has them empty (src/device/off).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/membership/links.hpp"
#include "wreath/device.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/result.hpp"

namespace wreath {

class Engine;
class RunTable;

// The most that CommunicatorOverrides::low_latency_bytes may say.
inline constexpr std::size_t kMostLowLatencyBytes = std::size_t{1} << 20;

// Returns Unavailable in a build without devices.
Status has_devices();

// Returns what peers are told of `device`, which is null for none.
EndpointDevice identity_of(const Device* device);

// Returns what links get of `device`, null for none, where `transports`, empty for all, let peers map its memory.
DeviceSegments device_segments(Device* device, const std::vector<std::string>& transports);

// Adds the row of operations on memory of a device. It is an AddRuns.
void add_device_runs(Engine& engine, RunTable& table);

}  // namespace wreath
