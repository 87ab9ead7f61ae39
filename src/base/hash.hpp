// Fast hashes: the same in all processes of a job, and no secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace wreath {

constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

template <typename... More>
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value, More... more) {
  return mix(mix(hash, value), more...);
}

// Of bytes that may have been altered by accident: a change within 8 of them, from a multiple of 8, never goes unseen.
inline std::uint64_t checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t kAtOnce = 4;  // words whose multiplications overlap
  using Words = std::array<std::uint64_t, kAtOnce>;
  Words sums{1, 2, 3, 4};
  const auto add = [&](const std::byte* data, std::size_t size) {
    Words words{};
    std::memcpy(words.data(), data, size);
    for (std::size_t i = 0; i < kAtOnce; ++i) sums[i] = mix(sums[i], words[i]);
  };
  std::size_t at = 0;
  for (; bytes.size() - at >= sizeof(Words); at += sizeof(Words)) add(bytes.data() + at, sizeof(Words));
  if (at < bytes.size()) add(bytes.data() + at, bytes.size() - at);
  return mix(bytes.size(), sums[0], sums[1], sums[2], sums[3]);
}

}  // namespace wreath
