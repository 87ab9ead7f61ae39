// Tells how much memory may be taken before the kernel kills a process for it.
#pragma once

#include <cstdint>
#include <string>

namespace wreath {

// Returns the bytes that can be had now: a moment's estimate. The machine's available memory and swap bound them, and
// so do the limits of this process's control groups (versions 1 and 2). Files that cannot be read do not limit. `root`
// stands before every path, for tests.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace wreath
