// The small words every other header uses: ranks, dtypes, operators, collectives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace wreath {

using Rank = std::int32_t;

enum class DataType : std::uint8_t { Int32, Float32 };
enum class ReduceOp : std::uint8_t { Sum };
enum class Collective : std::uint8_t { AllReduce };

// Bytes of one element.
std::size_t size_of(DataType dtype) noexcept;

// "float32", "sum", "all_reduce".
std::string_view name(DataType dtype) noexcept;
std::string_view name(ReduceOp op) noexcept;
std::string_view name(Collective collective) noexcept;

// Reads our names and nccl-tests' spellings ("float", "int", "half"); nullopt when unknown.
std::optional<DataType> parse_dtype(std::string_view text) noexcept;
std::optional<ReduceOp> parse_op(std::string_view text) noexcept;

// The rows that exist, in the order tables print them.
std::span<const DataType> all_dtypes() noexcept;
std::span<const ReduceOp> all_ops() noexcept;
std::span<const Collective> all_collectives() noexcept;

// The dtype of a C++ element type: dtype_of<float>.
template <typename T>
inline constexpr DataType dtype_of = [] { static_assert(sizeof(T) == 0, "no such dtype"); }();
template <>
inline constexpr DataType dtype_of<float> = DataType::Float32;
template <>
inline constexpr DataType dtype_of<std::int32_t> = DataType::Int32;

}  // namespace wreath
