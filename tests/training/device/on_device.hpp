// Puts values into the memory of a Compute, for comparisons with the CPU's functions.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "training/compute/compute.hpp"
#include "training/compute/memory.hpp"

namespace wreath::training::test {

using Values = std::vector<float>;

inline Values random_values(std::size_t count, unsigned seed, float deviation = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Returns the first GPU where there is one, else the host device.
inline Device& tested_device() {
  const Result<Device*> gpu = cuda_device(0);
  return gpu ? **gpu : host_device();
}

// A Compute, and the accounting whose buffers lie in its memory.
struct Place {
  explicit Place(ComputeOptions options = {}) {
    options.cublaslt = false;  // compares the project's own kernel
    compute = Compute::create(tested_device(), options).value();
    memory.place_on(compute.get());
  }
  std::unique_ptr<Compute> compute;
  MemoryAccounting memory;
};

// A copy of values in the memory of a Place, which can be read back.
template <typename T>
class There {
 public:
  There(Place& place, const std::vector<T>& values)
      : buffer_(place.memory, MemoryTag::Workspace, values.size(), Contents::Undefined) {
    copy(std::span<const T>(values), buffer_.span());
  }
  std::span<T> span() const { return buffer_.span(); }
  operator std::span<T>() const { return buffer_.span(); }        // NOLINT(google-explicit-constructor)
  operator std::span<const T>() const { return buffer_.span(); }  // NOLINT(google-explicit-constructor)
  T* data() const { return buffer_.data(); }
  std::vector<T> read() const {
    std::vector<T> values(buffer_.size());
    copy(std::span<const T>(buffer_.span()), std::span<T>(values));
    return values;
  }

 private:
  Buffer<T> buffer_;
};

inline void expect_near(const Values& values, const Values& expected, float bound) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], bound * (1 + std::abs(expected[i]))) << "at " << i;
  }
}

}  // namespace wreath::training::test
