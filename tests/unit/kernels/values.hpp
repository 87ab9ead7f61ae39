// Draws elements that find mistakes: special values, ties of every narrowing, small integers, and any bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>

#include "wreath/types.hpp"

namespace wreath {

inline std::uint64_t draw_integer(std::mt19937& random, std::size_t bytes) {
  const std::uint64_t any = static_cast<std::uint64_t>(random()) << 32 | random();
  const std::uint64_t top = std::uint64_t{1} << (8 * bytes - 1);
  switch (random() % 4) {
    case 0: return any % 16;
    // These are the largest and the least values of both signednesses.
    case 1: return top - 2 + any % 4;
    case 2: return ~std::uint64_t{0} - any % 4;  // -1 and below
    default: return any;
  }
}

inline std::uint32_t draw_float(std::mt19937& random) {
  constexpr std::uint32_t kSpecial[] = {
      0x00000000, 0x80000000, 0x3f800000, 0xbf800000,  // 0, -0, 1, -1
      0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff,  // infinities, largest
      0x00000001, 0x80000001, 0x007fffff, 0x00800000,  // subnormals, smallest normal
      0x7fc00000, 0xffc00000, 0x7fc12345, 0xff812345,  // quiet and signalling NaN with payloads
      0x7f800001, 0x33800000, 0x3f800001, 0x4b800000,  // 2^-24, 1 + ulp, 2^24: rounding to even
      0x477fe000, 0x477ff000, 0x477fefff, 0xc77ff000,  // 65504, and what rounds to float16's infinity
      0x43e00000, 0x43e80000, 0xc3e80001, 0x47600000,  // 448, 464; 57344
      0x47700000, 0x7f7f8000, 0x7f7f7fff, 0x33000000,  // 61440; bfloat16's largest; half of float16's least
  };
  const auto any = static_cast<std::uint32_t>(random());
  switch (random() % 8) {
    case 0:
    case 1: return kSpecial[any % std::size(kSpecial)];
    case 2: return any;
    case 3: return std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(any % 32) - 16));
    case 4: return (any & 0x80000000u) | ((100 + any % 48) << 23) | ((any >> 8) % 32) << 18;   // few bits, float8 ties
    case 5: return (any & 0x80000000u) | ((100 + any % 48) << 23) | ((any >> 8) % 512) << 14;  // bfloat16 ties
    default: return (any & 0x80000000u) | ((100 + any % 48) << 23) | ((any >> 8) % 4096) << 11;  // float16 ties
  }
}

inline std::uint64_t draw_double(std::mt19937& random) {
  constexpr std::uint64_t kSpecial[] = {
      0x7ff0000000000000, 0xfff0000000000000, 0x7fefffffffffffff, 0x0000000000000001, 0x8000000000000001,
      0x7ff8000000000000, 0xfff8000000012345, 0x7ff0000000000001, 0x0010000000000000, 0x8000000000000000,
      0x0000000000000000, 0x3ff0000000000001, 0x3ca0000000000000, 0x4340000000000000, 0xbff0000000000000,
  };
  const std::uint64_t any = static_cast<std::uint64_t>(random()) << 32 | random();
  switch (random() % 4) {
    case 0: return kSpecial[any % std::size(kSpecial)];
    case 1: return any;
    case 2: return std::bit_cast<std::uint64_t>(static_cast<double>(any % 32) - 16);
    default: return (any & 0x800fffffffffffffu) | (1000 + any % 48) << 52;
  }
}

// Returns the bits of one element. Narrow floats have so few bits that any value will do, but finite ones come more
// often.
inline std::uint64_t draw(DataType dtype, std::mt19937& random) {
  if (dtype == DataType::Float32) return draw_float(random);
  if (dtype == DataType::Float64) return draw_double(random);
  if (!is_floating(dtype)) return draw_integer(random, size_of(dtype));
  constexpr std::uint32_t kSpecial[] = {0x0000, 0x8000, 0x7c00, 0xfc00, 0x7c01, 0xfe12, 0x7bff, 0x0001,
                                        0x83ff, 0x0400, 0x7f80, 0xff80, 0x7f7f, 0xff81, 0x7fc0, 0x7e7e};
  const auto any = static_cast<std::uint32_t>(random());
  return random() % 4 == 0 ? kSpecial[any % std::size(kSpecial)] : any;
}

inline void fill(DataType dtype, std::mt19937& random, std::byte* target, std::size_t elements) {
  const std::size_t bytes = size_of(dtype);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::uint64_t bits = draw(dtype, random);
    // The low bytes come first: the machine is little-endian.
    std::memcpy(target + i * bytes, &bits, bytes);
  }
}

}  // namespace wreath
