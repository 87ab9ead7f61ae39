// Sizes as people write them: K M G (and KiB MiB GiB), all binary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

// "8", "64K", "64k", "64KiB", "64KB", "1.5M", "2G" -> bytes. InvalidArgument names the text and what is
// wrong with it: empty, not a number, unknown suffix, not a whole number of bytes, 2^63 and above.
Result<std::uint64_t> parse_bytes(std::string_view text);

// Exact and short: 8 -> "8", 65536 -> "64K", 1048577 -> "1048577". parse_bytes reads it back.
std::string format_bytes(std::uint64_t bytes);

}  // namespace wreath
