// Makes and compares the data of a measurement.
#include "perf/base/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "perf/base/reference.hpp"

namespace wreath::perf {
namespace {

constexpr std::int64_t kInPlaceValues = 4;

// Returns the bits of the integers that a floating dtype holds exactly.
int significant_bits(DataType dtype) {
  return for_dtype(dtype, []<typename T>(T) {
    if constexpr (NarrowFormat<T>::kExists) {
      return NarrowFormat<T>::kMantissaBits + 1;
    } else {
      return std::numeric_limits<T>::digits;
    }
  });
}

// Returns bits that are different for every rank, stream and element.
std::uint64_t random_bits(Rank rank, int stream, std::size_t element) {
  return mix((static_cast<std::uint64_t>(rank) << 34) | (static_cast<std::uint64_t>(stream) << 32) | element);
}

// Returns the factors of all ranks together: the most by which a sum of equal values is multiplied.
double total_factor(ReduceOp op, int ranks) {
  return op == ReduceOp::PremultipliedSum ? kLargestFactor * ranks : ranks;
}

// Returns the largest integer for inputs of a floating dtype.
std::int64_t largest_value(DataType dtype, ReduceOp op, int ranks, int stream) {
  if (stream == PatternSet::kInPlace) return kInPlaceValues;
  const double exact = std::ldexp(1.0, significant_bits(accumulator_of(dtype))) / total_factor(op, ranks);
  const double own = std::ldexp(1.0, significant_bits(dtype));
  return static_cast<std::int64_t>(std::clamp(std::min(exact, own), 1.0, 1000.0));
}

double value_of(std::uint64_t bits, ReduceOp op, std::int64_t largest) {
  if (op == ReduceOp::Prod) {
    constexpr std::array kPowers{0.5, 1.0, 2.0, -1.0};
    return kPowers[bits % kPowers.size()];
  }
  const auto value = static_cast<double>(1 + static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(largest)));
  const bool orders = op == ReduceOp::Min || op == ReduceOp::Max;
  return orders && (bits >> 40 & 1) != 0 ? -value : value;
}

Pattern make_input(DataType dtype, std::optional<ReduceOp> op, int ranks, int stream, Rank rank) {
  const std::size_t bytes = size_of(dtype);
  std::vector<std::byte> period(kPeriod * bytes);
  if (!op || !is_floating(dtype)) {
    for (std::size_t i = 0; i < kPeriod; ++i) {
      // The products of odd integers are never 0.
      const std::uint64_t bits = random_bits(rank, stream, i) | (op == ReduceOp::Prod ? 1U : 0U);
      std::memcpy(&period[i * bytes], &bits, bytes);
    }
  } else {
    const std::int64_t largest = largest_value(dtype, *op, ranks, stream);
    std::vector<double> values(kPeriod);
    for (std::size_t i = 0; i < kPeriod; ++i) values[i] = value_of(random_bits(rank, stream, i), *op, largest);
    encode(dtype, values, period.data());
  }
  return {std::move(period), bytes};
}

// Returns how often a result may be combined again before it stops being exact in every order.
int exact_calls(DataType dtype, std::optional<ReduceOp> op, int ranks) {
  // A call in place finds the data that it would write.
  if (!op) return std::numeric_limits<int>::max();
  if (!is_floating(dtype) || *op == ReduceOp::Min || *op == ReduceOp::Max) return kMostCallsInPlace;
  if (*op == ReduceOp::Prod || *op == ReduceOp::Avg) return 1;
  const double factor = total_factor(*op, ranks);
  double magnitude = static_cast<double>(kInPlaceValues) * factor;
  int calls = 1;
  while (calls < kMostCallsInPlace && magnitude * factor <= std::ldexp(1.0, significant_bits(accumulator_of(dtype)))) {
    magnitude *= factor;
    ++calls;
  }
  return calls;
}

}  // namespace

Pattern repeated(std::byte value) { return {{value}, 1}; }

void Pattern::fill(std::span<std::byte> target, std::size_t first) const {
  if (period_.size() == 1) std::fill(target.begin(), target.end(), period_.front());
  if (period_.size() <= 1) return;
  std::size_t at = first * element_bytes_ % (period_.empty() ? 1 : period_.size());
  for (std::size_t offset = 0; offset < target.size();) {
    const std::size_t bytes = std::min(period_.size() - at, target.size() - offset);
    std::memcpy(target.data() + offset, period_.data() + at, bytes);
    offset += bytes;
    at = 0;
  }
}

std::uint64_t Pattern::count_wrong(std::span<const std::byte> data, std::size_t first) const {
  std::uint64_t wrong = 0;
  std::size_t at = first * element_bytes_ % (period_.empty() ? 1 : period_.size());
  for (std::size_t offset = 0; offset < data.size();) {
    const std::size_t bytes = std::min(period_.size() - at, data.size() - offset);
    if (std::memcmp(data.data() + offset, period_.data() + at, bytes) != 0) {
      for (std::size_t i = 0; i < bytes; i += element_bytes_) {
        wrong += std::memcmp(data.data() + offset + i, &period_[at + i], element_bytes_) != 0 ? 1U : 0U;
      }
    }
    offset += bytes;
    at = 0;
  }
  return wrong;
}

PatternSet::PatternSet(DataType dtype, std::optional<ReduceOp> op, int ranks)
    : dtype_(dtype), op_(op), exact_calls_(exact_calls(dtype, op, ranks)) {
  for (int stream = 0; stream < 3; ++stream) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      inputs_[index(stream)].push_back(make_input(dtype, op, ranks, stream, rank));
    }
  }
  if (!op) return;
  for (int stream = 0; stream < 2; ++stream) combined_[index(stream)] = combine(inputs_of(stream));
}

std::vector<const std::byte*> PatternSet::inputs_of(int stream) const {
  std::vector<const std::byte*> inputs;
  for (const Pattern& each : inputs_[index(stream)]) inputs.push_back(each.data());
  return inputs;
}

Pattern PatternSet::combine(std::span<const std::byte* const> inputs) const {
  std::vector<std::byte> period(kPeriod * size_of(dtype_));
  reduce_ranks(dtype_, *op_, inputs, period.data(), kPeriod);
  return {std::move(period), size_of(dtype_)};
}

const Pattern& PatternSet::combined_in_place(int calls, Rank replaced) {
  std::vector<Pattern>& after = in_place_[replaced];
  while (after.size() < static_cast<std::size_t>(calls)) {
    std::vector<const std::byte*> inputs = inputs_of(kInPlace);
    for (std::size_t rank = 0; rank < inputs.size() && !after.empty(); ++rank) {
      if (replaced == kEveryRank || static_cast<std::size_t>(replaced) == rank) inputs[rank] = after.back().data();
    }
    after.push_back(combine(inputs));
  }
  return after[static_cast<std::size_t>(calls - 1)];
}

}  // namespace wreath::perf
