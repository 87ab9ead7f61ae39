// Decides from which size on peers read buffers of `wreath::allocate` where they lie (docs/decisions/0043).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace wreath {

// Returns the least bytes of such a buffer. For smaller ones a copy into a slot costs less than to read lines that
// their owner has just written out of its near cache, of `near_cache_bytes` (0 where not known). `vendor` is
// cpu_vendor().
std::size_t read_in_place_bytes(std::string_view vendor, std::uint64_t near_cache_bytes) noexcept;

}  // namespace wreath
