// This file declares the highest magnitude of values, and the sum of their squares as an integer.
#pragma once

#include <span>
#include <vector>

namespace wreath::training {

// Returns the highest magnitude: 0 where there are no values, NaN where one is NaN.
float highest_magnitude(std::span<const float> values);
// Returns the highest magnitude of each of several spans that lie in one place. It waits for a device once.
std::vector<float> highest_magnitudes(std::span<const std::span<const float>> several);

// Returns the sum of the squares of scale * value, each rounded to an integer (docs/decisions/0011). The sum has the
// same bits in any order. `scale` makes magnitudes below 2^20. All spans lie in one place; it waits for a device.
__int128 sum_of_squares(std::span<const std::span<const float>> several, double scale);

}  // namespace wreath::training
