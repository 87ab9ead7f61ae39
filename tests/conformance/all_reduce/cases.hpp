// What every row of the registries is held to: inputs, the reference, and where buffers lie.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "wreath/algorithm.hpp"
#include "wreath/transport.hpp"
#include "wreath/wreath.hpp"

namespace wreath::test {

// The canonical sum over absolute ranks: pairs by rank bit, low bit first; ranks beyond the largest
// power of two fold into pairs first.
template <typename T>
T canonical_sum(std::span<const T> values) {
  std::vector<T> level;
  std::size_t power = 1;
  while (power * 2 <= values.size()) power *= 2;
  const std::size_t pairs = values.size() - power;
  for (std::size_t i = 0; i < values.size();) {
    const bool folds = i < 2 * pairs;
    level.push_back(folds ? static_cast<T>(values[i] + values[i + 1]) : values[i]);
    i += folds ? 2 : 1;
  }
  while (level.size() > 1) {
    for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = static_cast<T>(level[2 * i] + level[2 * i + 1]);
    level.resize(level.size() / 2);
  }
  return level.front();
}

// Element i of rank r. Floats differ in size by many powers of two, so that every other order of
// summation shows in the bits; integers may wrap.
template <typename T>
T element(int rank, std::size_t i) {
  std::uint64_t hash = (static_cast<std::uint64_t>(rank) + 1) * 0x9E3779B97F4A7C15u + i * 0xD1B54A32D192ED03u;
  hash = (hash ^ (hash >> 31)) * 0xBF58476D1CE4E5B9u;
  hash ^= hash >> 29;
  if constexpr (std::is_floating_point_v<T>) {
    const auto mantissa = static_cast<T>(static_cast<std::int32_t>(hash));
    return std::ldexp(mantissa, static_cast<int>((hash >> 40) % 24) - 40);
  } else {
    return static_cast<T>(hash);
  }
}

template <typename T>
std::vector<T> expected_sum(int ranks, std::size_t count) {
  std::vector<T> sums(count);
  std::vector<T> values(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < count; ++i) {
    for (int rank = 0; rank < ranks; ++rank) values[static_cast<std::size_t>(rank)] = element<T>(rank, i);
    if constexpr (std::is_integral_v<T>) {
      std::uint32_t sum = 0;
      for (const T value : values) sum += static_cast<std::uint32_t>(value);
      sums[i] = static_cast<T>(sum);
    } else {
      sums[i] = canonical_sum<T>(values);
    }
  }
  return sums;
}

// Elements at a chosen byte offset, in ordinary memory or memory that peers map.
template <typename T>
class Elements {
 public:
  Elements(std::size_t count, std::size_t offset_bytes, bool shared) : count_(count), offset_(offset_bytes) {
    if (shared) {
      memory_ = allocate(count * sizeof(T) + offset_bytes + sizeof(T)).value();
    } else {
      bytes_.resize(count * sizeof(T) + offset_bytes + sizeof(T));
    }
  }
  std::byte* data() { return (memory_.size() > 0 ? memory_.data() : bytes_.data()) + offset_; }
  void set(std::size_t i, T value) { std::memcpy(data() + i * sizeof(T), &value, sizeof(T)); }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_;
  std::size_t offset_;
  std::vector<std::byte> bytes_;
  Memory memory_;
};

// One call of one rank.
struct CallShape {
  std::size_t count;
  std::size_t input_offset = 0;
  std::size_t output_offset = 0;
  bool in_place = false;
  bool shared = false;
};

// Runs it and compares every bit; the index of the first wrong element, or -1.
template <typename T>
std::ptrdiff_t first_wrong(Communicator& communicator, const CallShape& shape, const std::vector<T>& expected) {
  Elements<T> input(shape.count, shape.input_offset, shape.shared);
  Elements<T> output(shape.count, shape.output_offset, shape.shared);
  for (std::size_t i = 0; i < shape.count; ++i) input.set(i, element<T>(communicator.rank(), i));
  std::memset(output.data(), 0x5A, shape.count * sizeof(T));
  std::byte* result = shape.in_place ? input.data() : output.data();
  communicator.all_reduce(input.data(), result, shape.count, dtype_of<T>).value();
  for (std::size_t i = 0; i < shape.count; ++i) {
    if (std::memcmp(result + i * sizeof(T), &expected[i], sizeof(T)) != 0) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

}  // namespace wreath::test
