// Implements the rule of rings.
#include "src/tuner/ring.hpp"

#include <algorithm>
#include <bit>

#include "wreath/link.hpp"

namespace wreath {

std::size_t ring_bytes(std::uint64_t near_cache_bytes, int peers, std::size_t slots_bytes) noexcept {
  const auto readers = static_cast<std::uint64_t>(std::max(peers, 1));
  const std::uint64_t ring = std::min<std::uint64_t>(std::bit_floor(2 * near_cache_bytes / readers), slots_bytes);
  const bool leaves_cache = 2 * ring * readers >= 3 * near_cache_bytes;
  return leaves_cache ? std::max<std::size_t>(ring, kLeastRingBytes) : kLeastRingBytes;
}

std::size_t ring_bytes(const HostRanks& host, std::size_t slots_bytes) noexcept {
  return host.crowded() ? kLeastRingBytes : ring_bytes(cache_sizes().near_bytes, host.ranks - 1, slots_bytes);
}

bool fills_ping_pong(std::string_view vendor, const HostRanks& host) noexcept {
  return vendor == "GenuineIntel" && host.ranks == 2 && !host.crowded();
}

SmallLimits small_limits(int ranks, std::size_t ring_bytes, bool ping_pong) noexcept {
  SmallLimits limits;
  static_assert(SmallLimits().sum_bytes == kSmallMessageBytes);
  const bool wide = ranks == 2 && ring_bytes > kLeastRingBytes;
  if (wide) limits.rooted_bytes = kPairMessageBytes;
  if (wide || ping_pong) limits.sum_bytes = limits.block_bytes = kPairMessageBytes;
  return limits;
}

}  // namespace wreath
