// Implements the rule, and the setting in its place.
#include "src/tuner/streaming.hpp"

#include <algorithm>

#include "src/base/config.hpp"
#include "src/base/cpu.hpp"

namespace wreath {
namespace {

// Returns how much of a cache counts at most: a virtual machine is shown a cache that others fill, too. Copies past the
// caches that read pages side by side, as on an Intel, gain earlier.
std::uint64_t most_cache_bytes(std::string_view vendor) noexcept {
  return std::uint64_t{vendor == "GenuineIntel" ? 8U : 32U} << 20;
}

}  // namespace

StreamedBytes streamed_bytes(std::string_view vendor, std::uint64_t last_cache_bytes, int ranks) noexcept {
  const std::uint64_t most = most_cache_bytes(vendor);
  const std::uint64_t cache = last_cache_bytes == 0 ? most : std::min(last_cache_bytes, most);
  const auto outputs = static_cast<std::uint64_t>(std::max(ranks, 1));
  return {2 * cache / outputs, std::max(2 * cache, last_cache_bytes / 4) / outputs};
}

Result<StreamedBytes> streamed_bytes(int ranks) {
  if (setting_text(Setting::StreamBytes) == "auto")
    return streamed_bytes(cpu_vendor(), cache_sizes().last_bytes, ranks);
  const auto bytes = setting_bytes(Setting::StreamBytes);
  if (!bytes) return Error{bytes.error().code, bytes.error().message + ", or auto", -1};
  const std::uint64_t least = *bytes == 0 ? kNothingStreams : static_cast<std::uint64_t>(*bytes);
  return StreamedBytes{least, least};
}

}  // namespace wreath
