// The small words every other header uses: ranks, operators, collectives, and questions about dtypes (dtypes.hpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "wreath/dtypes.hpp"

namespace wreath {

// Ranks of a job, at most.
inline constexpr int kMaximumRanks = 4096;

using Rank = std::int32_t;

// Avg: the sum, divided by the ranks at its end, as the sum's rounding asks for. Where a float32 or float64 sum leaves
// the type's range the mean is infinite, too; a PremultipliedSum with the factor 1 / ranks stays in it.
// PremultipliedSum: every rank's input is multiplied by that rank's factor (Reduction), then summed.
enum class ReduceOp : std::uint8_t { Sum, Prod, Min, Max, Avg, PremultipliedSum };

enum class Collective : std::uint8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  Reduce,
  AllToAll,
  Gather,
  Scatter,
  Barrier,
  Exchange,  // sends and receives of a group, or a single one
};

// Bytes of one element.
std::size_t size_of(DataType dtype) noexcept;
// The dtype sums are formed in: float32 for narrower floats, itself for every other.
DataType accumulator_of(DataType dtype) noexcept;
bool is_floating(DataType dtype) noexcept;

// "float32", "sum", "all_reduce".
std::string_view name(DataType dtype) noexcept;
std::string_view name(ReduceOp op) noexcept;
std::string_view name(Collective collective) noexcept;
// With blocks that vary: "all_gather_v".
std::string_view name(Collective collective, bool varying) noexcept;

// Reads our names and nccl-tests' spellings ("float", "int", "half"); nullopt when unknown.
std::optional<DataType> parse_dtype(std::string_view text) noexcept;
std::optional<ReduceOp> parse_op(std::string_view text) noexcept;
std::optional<Collective> parse_collective(std::string_view text) noexcept;

// The rows that exist, in the order tables print them.
std::span<const DataType> all_dtypes() noexcept;
std::span<const ReduceOp> all_ops() noexcept;
std::span<const Collective> all_collectives() noexcept;

// Whether a collective combines elements, and whether one rank is its root.
bool reduces(Collective collective) noexcept;
bool has_root(Collective collective) noexcept;
// Whether the counts of a call are equal on all ranks and compared: all but those of all_to_all_v, gather_v and
// scatter_v, of which a rank may know its own blocks only.
bool counts_agree(Collective collective, bool varying) noexcept;

// How a reduction combines: an operator, and for PremultipliedSum this rank's factor. Converts from an operator.
struct Reduction {
  ReduceOp op = ReduceOp::Sum;
  double factor = 1;                // floating dtypes; rounded to the accumulator's type first
  std::int64_t integer_factor = 1;  // integer dtypes; products wrap

  constexpr Reduction() = default;
  constexpr Reduction(ReduceOp of) : op(of) {}  // NOLINT(google-explicit-constructor)
  // For integer dtypes the factor is truncated, and 0 where it is no 64-bit integer (NaN, infinity, 2^63 and above).
  static constexpr Reduction premultiplied_sum(double factor) {
    constexpr double kEnd = 9223372036854775808.0;
    Reduction reduction(ReduceOp::PremultipliedSum);
    reduction.factor = factor;
    reduction.integer_factor = factor >= -kEnd && factor < kEnd ? static_cast<std::int64_t>(factor) : 0;
    return reduction;
  }
  static constexpr Reduction premultiplied_sum(std::int64_t factor) {
    Reduction reduction(ReduceOp::PremultipliedSum);
    reduction.factor = static_cast<double>(factor);
    reduction.integer_factor = factor;
    return reduction;
  }
};

}  // namespace wreath
