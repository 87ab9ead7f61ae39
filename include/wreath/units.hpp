// Reads and writes sizes as people write them: K M G T (and KiB MiB GiB TiB), all binary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// Returns the bytes that "8", "64K", "64k", "64KiB", "64KB", "1.5M" or "2G" means. InvalidArgument names the text and
// what is wrong with it. Text is wrong that is empty, is not a number or has an unknown suffix. A number is wrong
// that is not a whole number of bytes, or is 2^63 or above.
Result<std::uint64_t> parse_bytes(std::string_view text);

// Returns exact and short text: "8" for 8, "64K" for 65536, "1048577" for 1048577. parse_bytes reads it back.
std::string format_bytes(std::uint64_t bytes);

}  // namespace wreath
