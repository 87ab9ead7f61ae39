// Conversions between float32 and the narrower floating dtypes, to nearest, ties to even.
//
// As everywhere in Wreath: finite values beyond an 8-bit format's largest become its largest, those of the 16-bit
// formats infinity; e4m3 (OCP's e4m3fn) has no infinity and makes NaN of it; every NaN becomes the one quiet NaN
// without a sign. Subnormal values are exact on both sides.
#pragma once

#include <cstdint>
#include <span>

#include "wreath/types.hpp"

namespace wreath::training {

// The largest finite value.
float largest(DataType format) noexcept;

// Element by element; both are of one size and do not overlap. The words of 16-bit formats are uint16_t, those of 8-bit
// ones uint8_t; else InvalidArgument is thrown.
void narrow(DataType format, std::span<const float> values, std::span<std::uint16_t> words);
void narrow(DataType format, std::span<const float> values, std::span<std::uint8_t> words);
void widen(DataType format, std::span<const std::uint16_t> words, std::span<float> values);
void widen(DataType format, std::span<const std::uint8_t> words, std::span<float> values);

// rounded[i] = the format's nearest to scale * values[i], divided by scale, a power of two: the values that the format
// keeps, as float32. `rounded` may be `values`.
void round_to(DataType format, std::span<const float> values, std::span<float> rounded, float scale = 1);

}  // namespace wreath::training
