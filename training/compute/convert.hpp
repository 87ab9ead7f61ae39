// This file declares conversions between float32 and the narrower floating dtypes, to nearest, ties to even.
//
// The rules are the same everywhere in Wreath. Finite values beyond an 8-bit format's largest become its largest; those
// beyond a 16-bit format's largest become infinity. The format e4m3 (OCP's e4m3fn) has no infinity and makes NaN of it.
// Every NaN becomes the one quiet NaN without a sign. Subnormal values are exact on both sides.
#pragma once

#include <cstdint>
#include <span>

#include "wreath/types.hpp"

namespace wreath::training {

// Returns the largest finite value of `format`.
float largest(DataType format) noexcept;

// Converts element by element; `values` and `words` have one size and do not overlap. The words of 16-bit formats are
// uint16_t, those of 8-bit formats uint8_t. Throws InvalidArgument where the format does not match the words.
void narrow(DataType format, std::span<const float> values, std::span<std::uint16_t> words);
void narrow(DataType format, std::span<const float> values, std::span<std::uint8_t> words);
void widen(DataType format, std::span<const std::uint16_t> words, std::span<float> values);
void widen(DataType format, std::span<const std::uint8_t> words, std::span<float> values);

// Sets rounded[i] to the format's nearest value to scale * values[i], divided by `scale`, a power of two. The results
// are float32 values that the format can hold. `rounded` may be `values`.
void round_to(DataType format, std::span<const float> values, std::span<float> rounded, float scale = 1);

}  // namespace wreath::training
