// What every device refuses of a copy before it begins.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "src/device/library_device.hpp"
#include "wreath/device.hpp"

namespace wreath {

// Whose memory a copy is between. The driver is asked once for each end.
struct CopyEnds {
  PointerFacts target;
  PointerFacts source;
};

// InvalidArgument for null, and for memory of another device that `device` does not reach.
Result<CopyEnds> check_copy(const Device& device, const void* target, const void* source, std::size_t bytes);

// The work's own status; what it throws is its failure. `where` names the stream in messages.
Status outcome_of(const std::function<Status()>& work, std::string_view where);

}  // namespace wreath
