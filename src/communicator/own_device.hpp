// These functions choose the device that runs a rank's calls on device memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wreath/device.hpp"
#include "wreath/result.hpp"

namespace wreath {

// Returns InvalidArgument unless `text` is empty or a list of "cuda:N", "host" and "none".
Status check_device_names(std::string_view text);

// Returns the devices of CommunicatorOptions::device for `ranks` ranks of this process, null for none. Rank r gets the
// device at r modulo the length of the list. An empty list is the CUDA device that is current in this thread, or null
// where the program uses no CUDA. Returns InvalidArgument for a number that is none, and Unavailable where there is no
// CUDA or the build has no devices.
Result<std::vector<Device*>> devices_of_ranks(const std::string& text, int ranks);

}  // namespace wreath
