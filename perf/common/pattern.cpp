// Making and comparing the data of a measurement.
#include "perf/common/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace wreath::perf {
namespace {

constexpr int kMaximumExactCalls = 1'000'000;  // one rank: a call changes nothing
constexpr std::int64_t kInPlaceValues = 4;

// Bits of the integers a dtype holds exactly, and bits of the largest magnitude.
struct ExactRange {
  int mantissa_bits;
  int total_bits;
};
ExactRange exact_range(DataType dtype) { return dtype == DataType::Float32 ? ExactRange{24, 120} : ExactRange{30, 30}; }

void write_element(DataType dtype, double value, std::byte* target) {
  if (dtype == DataType::Float32) {
    const auto element = static_cast<float>(value);
    std::memcpy(target, &element, sizeof(element));
  } else {
    const auto element = static_cast<std::int32_t>(value);
    std::memcpy(target, &element, sizeof(element));
  }
}

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

// 1..limit, different for every rank, stream (0, 1: parities; 2: in place) and element.
std::int64_t value_of(int rank, int stream, std::size_t element, std::int64_t limit) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(rank) << 34) | (static_cast<std::uint64_t>(stream) << 32) | element;
  return 1 + static_cast<std::int64_t>(mix(key + 1) % static_cast<std::uint64_t>(limit));
}

// The element-wise sum of the values of ranks [first, last).
std::vector<double> sums_of(int first, int last, int stream, std::int64_t limit) {
  std::vector<double> sums(kPeriod);
  for (int rank = first; rank < last; ++rank) {
    for (std::size_t i = 0; i < kPeriod; ++i) sums[i] += static_cast<double>(value_of(rank, stream, i, limit));
  }
  return sums;
}

// How often a sum may be summed again before it stops being exact. A multiplication by `ranks` costs
// the odd part of it in significant digits, the rest in exponent; partial sums need all of it for a moment.
int exact_calls(DataType dtype, int ranks) {
  if (ranks == 1) return kMaximumExactCalls;
  const ExactRange range = exact_range(dtype);
  int odd = ranks;
  while (odd % 2 == 0) odd /= 2;
  double significant = static_cast<double>(kInPlaceValues) * ranks;
  double magnitude = significant;
  int calls = 1;
  while (significant * ranks <= std::ldexp(1.0, range.mantissa_bits) &&
         magnitude * ranks <= std::ldexp(1.0, range.total_bits)) {
    significant *= odd;
    magnitude *= ranks;
    ++calls;
  }
  return calls;
}

}  // namespace

Pattern::Pattern(DataType dtype, std::span<const double> values) : element_bytes_(size_of(dtype)) {
  period_.resize(values.size() * element_bytes_);
  for (std::size_t i = 0; i < values.size(); ++i) write_element(dtype, values[i], &period_[i * element_bytes_]);
}

void Pattern::fill(std::span<std::byte> target) const {
  for (std::size_t offset = 0; offset < target.size(); offset += period_.size()) {
    std::memcpy(target.data() + offset, period_.data(), std::min(period_.size(), target.size() - offset));
  }
}

std::uint64_t Pattern::count_wrong(std::span<const std::byte> data) const {
  std::uint64_t wrong = 0;
  for (std::size_t offset = 0; offset < data.size(); offset += period_.size()) {
    const std::size_t bytes = std::min(period_.size(), data.size() - offset);
    if (std::memcmp(data.data() + offset, period_.data(), bytes) == 0) continue;
    for (std::size_t i = 0; i < bytes; i += element_bytes_) {
      wrong += std::memcmp(data.data() + offset + i, &period_[i], element_bytes_) != 0 ? 1U : 0U;
    }
  }
  return wrong;
}

SumPatterns::SumPatterns(DataType dtype, int rank, int ranks)
    : dtype_(dtype), ranks_(ranks), exact_calls_(exact_calls(dtype, ranks)) {
  const std::int64_t limit =
      std::clamp<std::int64_t>((std::int64_t{1} << exact_range(dtype).mantissa_bits) / ranks, 1, 1000);
  for (int parity = 0; parity < 2; ++parity) {
    const auto index = static_cast<std::size_t>(parity);
    input_[index] = Pattern(dtype, sums_of(rank, rank + 1, parity, limit));
    sum_[index] = Pattern(dtype, sums_of(0, ranks, parity, limit));
  }
  in_place_input_ = Pattern(dtype, sums_of(rank, rank + 1, 2, kInPlaceValues));
  in_place_sum_ = sums_of(0, ranks, 2, kInPlaceValues);
}

Pattern SumPatterns::in_place_after(int calls) const {
  std::vector<double> values = in_place_sum_;
  for (int call = 1; call < calls && ranks_ > 1; ++call) {
    for (double& value : values) value *= ranks_;
  }
  return Pattern(dtype_, values);
}

}  // namespace wreath::perf
