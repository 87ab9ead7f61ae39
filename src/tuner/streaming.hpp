// Decides which outputs are written past the caches, by non-temporal stores (docs/decisions/0012).
#pragma once

#include <cstdint>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::uint64_t kNothingStreams = ~std::uint64_t{0};

// Returns the least bytes of a rank's output for which plain stores take longer. Plain stores fetch the bytes that they
// overwrite. They also leave bytes in the last cache, of `last_cache_bytes` (0 where not known). These push out the
// bytes that `ranks` of the host need there. `vendor` is cpu_vendor().
std::uint64_t streamed_bytes(std::string_view vendor, std::uint64_t last_cache_bytes, int ranks) noexcept;

// Returns the same by WREATH_STREAM_BYTES, for this machine and so many ranks on it; kNothingStreams where none are to.
// Fails with InvalidArgument where the setting is no size.
Result<std::uint64_t> streamed_bytes(int ranks);

}  // namespace wreath
