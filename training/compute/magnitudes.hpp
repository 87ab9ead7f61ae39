// The highest magnitude of values, and the sum of their squares as an integer.
#pragma once

#include <span>
#include <vector>

namespace wreath::training {

// The highest magnitude; 0 where there are no values, NaN where one is NaN.
float highest_magnitude(std::span<const float> values);
// The same of several that lie in one place: a device is waited for once.
std::vector<float> highest_magnitudes(std::span<const std::span<const float>> several);

// The sum of the squares of scale * value, each rounded to an integer (docs/decisions/0011): it has the same bits in
// whatever order. `scale` makes magnitudes below 2^20. All lie in one place; a device is waited for.
__int128 sum_of_squares(std::span<const std::span<const float>> several, double scale);

}  // namespace wreath::training
