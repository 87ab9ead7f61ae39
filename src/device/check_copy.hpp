// Every device makes these checks before a copy begins, and reports the outcome of work in this way.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "src/device/library_device.hpp"
#include "wreath/device.hpp"

namespace wreath {

// The facts about the memory at both ends of a copy. The driver is asked once for each end.
struct CopyEnds {
  PointerFacts target;
  PointerFacts source;
};

// Returns InvalidArgument for null, for memory of another device than `device`, and for bytes beyond an allocation.
Result<CopyEnds> check_copy(const Device& device, const void* target, const void* source, std::size_t bytes);

// Returns the status of `work`, or its exception as a failure. `where` names the stream in messages.
Status outcome_of(const std::function<Status()>& work, std::string_view where);

}  // namespace wreath
