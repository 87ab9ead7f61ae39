// These functions choose the device that runs a rank's calls on device memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/membership/links.hpp"
#include "wreath/device.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns InvalidArgument unless `text` is empty or a list of "cuda:N", "host" and "none".
Status check_device_names(std::string_view text);

// Returns the devices that CommunicatorOptions::device means for `ranks` ranks of this process, with null for none.
// Rank r gets the entry at r modulo the list's length. An empty text means the CUDA device that is current in this
// thread, or null where the program uses no CUDA. Returns InvalidArgument for a number that no device has, and
// Unavailable where there is no CUDA.
Result<std::vector<Device*>> devices_of_ranks(const std::string& text, int ranks);

// Returns the identity of a device that peers get.
EndpointDevice identity_of(const Device* device);

// Returns the segments that links get of `device`, which is null for none. They are empty unless `transports` lets
// peers map device memory; an empty list allows all.
DeviceSegments device_segments(Device* device, const std::vector<std::string>& transports);

}  // namespace wreath
