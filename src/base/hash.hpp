// Computes fast hashes, which are the same in all processes of a job and no secret.
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

// Returns a sum that detects accidental changes of bytes. A change within 8 of them, from a multiple of 8, is always
// seen.
inline std::uint64_t checksum(std::span<const std::byte> bytes) {
  // Four sums are made together, so that their multiplications overlap.
  constexpr std::size_t kAtOnce = 4 * sizeof(std::uint64_t);
  std::uint64_t a = 1;
  std::uint64_t b = 2;
  std::uint64_t c = 3;
  std::uint64_t d = 4;
  const auto add = [&](const std::byte* data, std::size_t size) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), data, size);
    a = mix(a, words[0]);
    b = mix(b, words[1]);
    c = mix(c, words[2]);
    d = mix(d, words[3]);
  };
  std::size_t at = 0;
  for (; bytes.size() - at >= kAtOnce; at += kAtOnce) add(bytes.data() + at, kAtOnce);
  if (at < bytes.size()) add(bytes.data() + at, bytes.size() - at);
  return mix(bytes.size(), a, b, c, d);
}

}  // namespace wreath
