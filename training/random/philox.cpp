// This file draws streams of random numbers from Philox.
#include "training/random/philox.hpp"

#include <cmath>
#include <numbers>

namespace wreath::training {

std::uint64_t fingerprint(std::string_view text) noexcept {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char letter : text) value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return value;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view name, std::uint32_t step) noexcept : step_(step) {
  const std::uint64_t hashed = fingerprint(name);
  name_ = static_cast<std::uint32_t>(hashed >> 32);
  key_ = {static_cast<std::uint32_t>(seed) ^ static_cast<std::uint32_t>(hashed),
          static_cast<std::uint32_t>(seed >> 32)};
}

void RandomStream::uniform(std::uint64_t first, std::span<float> out) const noexcept {
  for (std::size_t i = 0; i < out.size();) {
    const PhiloxCounter four = words((first + i) / 4);
    for (std::uint64_t word = (first + i) % 4; word < 4 && i < out.size(); ++word) out[i++] = fraction(four[word]);
  }
}

float RandomStream::normal(std::uint64_t index) const noexcept {
  const PhiloxCounter four = words(index / 2);
  const std::size_t pair = index % 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(fraction(four[pair]))));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * static_cast<double>(fraction(four[pair + 1]))));
}

std::uint64_t RandomStream::below(std::uint64_t bound, std::uint64_t index) const noexcept {
  const PhiloxCounter four = words(index);
  const std::uint64_t word = (std::uint64_t{four[0]} << 32) | four[1];
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(word) * bound) >> 64);
}

}  // namespace wreath::training
