// Implements the rule, and the setting in its place.
#include "src/tuner/streaming.hpp"

#include <unistd.h>

#include <algorithm>

#include "src/base/config.hpp"

namespace wreath {
namespace {

// Counts so much of a cache at most: a virtual machine is shown a cache that others fill, too.
constexpr std::uint64_t kMostCache = std::uint64_t{32} << 20;

std::uint64_t last_cache_bytes() {
  const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

}  // namespace

std::uint64_t streamed_bytes(std::uint64_t last_cache_bytes, int ranks) noexcept {
  const std::uint64_t cache = last_cache_bytes == 0 ? kMostCache : std::min(last_cache_bytes, kMostCache);
  return 2 * cache / static_cast<std::uint64_t>(std::max(ranks, 1));
}

Result<std::uint64_t> streamed_bytes(int ranks) {
  if (setting_text(Setting::StreamBytes) == "auto") return streamed_bytes(last_cache_bytes(), ranks);
  const auto bytes = setting_bytes(Setting::StreamBytes);
  if (!bytes) return Error{bytes.error().code, bytes.error().message + ", or auto", -1};
  return *bytes == 0 ? kNothingStreams : static_cast<std::uint64_t>(*bytes);
}

}  // namespace wreath
