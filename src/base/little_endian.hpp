// Numbers that another machine reads lie in memory with their least significant byte first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wreath {

// Writes the low `bytes` bytes of a number.
inline void store_little(std::byte* target, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) target[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

template <typename T>
T load_little(const std::byte* source) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<std::uint64_t>(source[i]) << (8 * i);
  return static_cast<T>(value);
}

}  // namespace wreath
