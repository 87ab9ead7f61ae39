// A fast hash of a few numbers: the same in all processes of a job, and no secret.
#pragma once

#include <cstdint>

namespace wreath {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

template <typename... More>
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value, More... more) {
  return mix(mix(hash, value), more...);
}

}  // namespace wreath
