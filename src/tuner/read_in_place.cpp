// Implements the rule.
#include "src/tuner/read_in_place.hpp"

#include <algorithm>

namespace wreath {
namespace {

// Measured on other processors.
constexpr std::size_t kUsualBytes = std::size_t{2} << 20;

}  // namespace

std::size_t read_in_place_bytes(std::string_view vendor, std::uint64_t near_cache_bytes) noexcept {
  if (vendor != "GenuineIntel" || near_cache_bytes == 0) return kUsualBytes;
  return std::min(kUsualBytes, static_cast<std::size_t>(near_cache_bytes / 4));
}

}  // namespace wreath
