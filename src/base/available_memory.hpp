// How much memory may be taken before the kernel kills somebody for it.
#pragma once

#include <cstdint>
#include <string>

namespace wreath {

// Bytes that can be had now: the machine's available memory and swap, and what the limits of this
// process's control groups (versions 1 and 2) leave, whichever is least. A moment's estimate.
// Files that cannot be read do not limit. `root` stands before every path, for tests.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace wreath
