// This file declares random numbers as a function of a key and a counter, so that every mesh draws the same.
//
// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace wreath::training {

// Returns the 64-bit FNV-1a hash of `text`.
std::uint64_t fingerprint(std::string_view text) noexcept;

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Returns four words, which are independent of those of every other counter and key.
constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// Returns a fraction in (0, 1), made of 24 bits and a half.
constexpr float fraction(std::uint32_t word) noexcept { return (static_cast<float>(word >> 8) + 0.5f) * 0x1p-24f; }

// A stream of numbers addressed by index. It belongs to a seed, a name ("h.0.attn.c_attn.weight") and, where each step
// draws anew, a step. It gives the same number on every rank that asks for the same index.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name, std::uint32_t step = 0) noexcept;
  // Returns a number uniform in (0, 1).
  constexpr float uniform(std::uint64_t index) const noexcept { return fraction(words(index / 4)[index % 4]); }
  // Sets out[i] = uniform(first + i), in a fourth of the time.
  void uniform(std::uint64_t first, std::span<float> out) const noexcept;
  // Returns a number of mean 0 and deviation 1 (Box-Muller).
  float normal(std::uint64_t index) const noexcept;
  // Returns a number uniform in 0 .. bound - 1, where bound > 0. Its bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound, std::uint64_t index) const noexcept;

 private:
  constexpr PhiloxCounter words(std::uint64_t index) const noexcept {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), step_, name_}, key_);
  }
  PhiloxKey key_;
  std::uint32_t name_;
  std::uint32_t step_;
};

}  // namespace wreath::training
