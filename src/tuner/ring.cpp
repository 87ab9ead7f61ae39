// Implements the rule of rings.
#include "src/tuner/ring.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "src/base/cpu.hpp"
#include "wreath/link.hpp"

namespace wreath {
namespace {

std::uint64_t near_cache_bytes() {
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

}  // namespace

std::size_t ring_bytes(std::uint64_t near_cache_bytes, int peers, std::size_t slots_bytes) noexcept {
  const auto readers = static_cast<std::uint64_t>(std::max(peers, 1));
  const std::uint64_t ring = std::min<std::uint64_t>(std::bit_floor(2 * near_cache_bytes / readers), slots_bytes);
  const bool leaves_cache = 2 * ring * readers >= 3 * near_cache_bytes;
  return leaves_cache ? std::max<std::size_t>(ring, kLeastRingBytes) : kLeastRingBytes;
}

std::size_t ring_bytes(int ranks_of_host, std::size_t slots_bytes) noexcept {
  if (ranks_of_host > cores_of_ranks()) return kLeastRingBytes;
  return ring_bytes(near_cache_bytes(), ranks_of_host - 1, slots_bytes);
}

bool fills_ping_pong(std::string_view vendor, int ranks_of_host) noexcept {
  return vendor == "GenuineIntel" && ranks_of_host == 2 && ranks_of_host <= cores_of_ranks();
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
