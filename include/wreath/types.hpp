// Every other header uses these small types: ranks, operators, collectives, and functions about dtypes (dtypes.hpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "wreath/dtypes.hpp"

namespace wreath {

// A job has at most so many ranks.
inline constexpr int kMaximumRanks = 4096;

using Rank = std::int32_t;

// Avg divides the sum by the number of ranks at its end, and rounds as the sum does. Where a float32 or float64 sum
// leaves the type's range, the mean is infinite, too. A PremultipliedSum with the factor 1 / ranks stays in that range.
// PremultipliedSum multiplies every rank's input by that rank's factor (Reduction), then sums.
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
  // The sends and receives of a group, or a single one.
  Exchange,
};

// Returns the bytes of one element.
std::size_t size_of(DataType dtype) noexcept;
// Returns the dtype in which sums are formed: float32 for narrower floats, and the dtype itself for every other.
DataType accumulator_of(DataType dtype) noexcept;
bool is_floating(DataType dtype) noexcept;

// Each overload returns a name such as "float32", "sum" or "all_reduce".
std::string_view name(DataType dtype) noexcept;
std::string_view name(ReduceOp op) noexcept;
std::string_view name(Collective collective) noexcept;
// Returns the name of the form whose blocks vary where `varying` is true, for example "all_gather_v".
std::string_view name(Collective collective, bool varying) noexcept;

// Each parser reads our names and the spellings of nccl-tests ("float", "int", "half"). Returns nullopt for an unknown
// name.
std::optional<DataType> parse_dtype(std::string_view text) noexcept;
std::optional<ReduceOp> parse_op(std::string_view text) noexcept;
std::optional<Collective> parse_collective(std::string_view text) noexcept;

// Each function returns the rows that exist, in the order in which tables print them.
std::span<const DataType> all_dtypes() noexcept;
std::span<const ReduceOp> all_ops() noexcept;
std::span<const Collective> all_collectives() noexcept;

// Says whether a collective combines elements.
bool reduces(Collective collective) noexcept;
// Says whether one rank is the root of a collective.
bool has_root(Collective collective) noexcept;
// Says whether the counts of a call are equal on all ranks and compared. This is so for all calls but all_to_all_v,
// gather_v and scatter_v, where a rank may know only its own blocks.
bool counts_agree(Collective collective, bool varying) noexcept;

// A Reduction says how elements combine. It has an operator, and for PremultipliedSum this rank's factor. An operator
// converts to a Reduction.
struct Reduction {
  ReduceOp op = ReduceOp::Sum;
  // The factor for floating dtypes. It is first rounded to the accumulator's type.
  double factor = 1;
  // The factor for integer dtypes. Products wrap.
  std::int64_t integer_factor = 1;

  constexpr Reduction() = default;
  constexpr Reduction(ReduceOp of) : op(of) {}  // NOLINT(google-explicit-constructor)
  // Makes a sum with this factor. For integer dtypes the factor is truncated. There it is 0 where it does not fit into
  // 64 bits (NaN, infinity, 2^63 and above).
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
