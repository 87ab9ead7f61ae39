// The dtype, operator and collective tables.
#include "wreath/types.hpp"

#include <array>

namespace wreath {
namespace {

struct DataTypeRow {
  DataType dtype;
  std::size_t bytes;
  std::string_view name;
  std::string_view alias;  // nccl-tests' spelling
};
constexpr std::array kDataTypes{
    DataTypeRow{DataType::Int32, 4, "int32", "int"},
    DataTypeRow{DataType::Float32, 4, "float32", "float"},
};
constexpr std::array kDataTypeList{DataType::Int32, DataType::Float32};
constexpr std::array kOpList{ReduceOp::Sum};
constexpr std::array kCollectiveList{Collective::AllReduce};

const DataTypeRow& row(DataType dtype) { return kDataTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t size_of(DataType dtype) noexcept { return row(dtype).bytes; }
std::string_view name(DataType dtype) noexcept { return row(dtype).name; }
std::string_view name(ReduceOp) noexcept { return "sum"; }
std::string_view name(Collective) noexcept { return "all_reduce"; }

std::optional<DataType> parse_dtype(std::string_view text) noexcept {
  for (const DataTypeRow& candidate : kDataTypes) {
    if (text == candidate.name || text == candidate.alias) return candidate.dtype;
  }
  return std::nullopt;
}

std::optional<ReduceOp> parse_op(std::string_view text) noexcept {
  return text == "sum" ? std::optional(ReduceOp::Sum) : std::nullopt;
}

std::span<const DataType> all_dtypes() noexcept { return kDataTypeList; }
std::span<const ReduceOp> all_ops() noexcept { return kOpList; }
std::span<const Collective> all_collectives() noexcept { return kCollectiveList; }

}  // namespace wreath
