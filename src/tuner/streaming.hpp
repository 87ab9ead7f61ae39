// Decides which outputs are written past the caches, by non-temporal stores (docs/decisions/0012).
#pragma once

#include <cstdint>
#include <string_view>

#include "wreath/result.hpp"

namespace wreath {

inline constexpr std::uint64_t kNothingStreams = ~std::uint64_t{0};

// The least bytes of a rank's output for which plain stores take longer.
struct StreamedBytes {
  std::uint64_t output = kNothingStreams;
  std::uint64_t read_output = kNothingStreams;  // of one that the same call has read: all_reduce in place
};

// Plain stores fetch the bytes that they overwrite, unless they have been read and still are in the last cache, of
// `last_cache_bytes` (0 where not known). They also leave bytes there, which push out those that `ranks` of the host
// need. `vendor` is cpu_vendor().
StreamedBytes streamed_bytes(std::string_view vendor, std::uint64_t last_cache_bytes, int ranks) noexcept;

// Returns the same by WREATH_STREAM_BYTES, for this machine and so many ranks on it; kNothingStreams where none are to.
// Fails with InvalidArgument where the setting is no size.
Result<StreamedBytes> streamed_bytes(int ranks);

}  // namespace wreath
