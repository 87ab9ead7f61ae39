// Which device a rank's calls on device memory run on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/membership/links.hpp"
#include "wreath/device.hpp"
#include "wreath/endpoint.hpp"
#include "wreath/result.hpp"

namespace wreath {

// InvalidArgument unless `text` is empty or a list of "cuda:N", "host" and "none".
Status check_device_names(std::string_view text);

// CommunicatorOptions::device for `ranks` ranks of this process, null for none: of a list rank r gets the device at
// r modulo its length. Empty: the CUDA device that is current in this thread, null where the program uses no CUDA.
// InvalidArgument for a number that is none, Unavailable where there is no CUDA.
Result<std::vector<Device*>> devices_of_ranks(const std::string& text, int ranks);

// What peers are told.
EndpointDevice identity_of(const Device* device);

// What links get of `device`, null for none, where `transports`, empty for all, let peers map its memory.
DeviceSegments device_segments(Device* device, const std::vector<std::string>& transports);

}  // namespace wreath
