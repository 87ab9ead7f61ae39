// Makes values for tests of the mathematics, and derivatives of float64 references by central differences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace wreath::training {

// Returns values between -1 and 1.
inline std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31f;
  }
  return values;
}

inline std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// Returns the sum of weights[i] * values[i], a loss whose gradient by `values` is `weights`.
inline double weighted_sum(const std::vector<double>& values, const std::vector<float>& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * double{weights[i]};
  return sum;
}

// Returns the derivative of loss() by `variable`, which loss() reads.
inline double derivative(double& variable, const std::function<double()>& loss) {
  constexpr double kStep = 1e-4;
  const double value = variable;
  variable = value + kStep;
  const double above = loss();
  variable = value - kStep;
  const double below = loss();
  variable = value;
  return (above - below) / (2 * kStep);
}

}  // namespace wreath::training
