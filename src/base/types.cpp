// Defines the dtype, operator and collective tables.
#include "wreath/types.hpp"

#include <algorithm>
#include <array>

namespace wreath {
namespace {

struct DataTypeRow {
  DataType dtype;
  DataType accumulator;
  std::size_t bytes;
  bool floating;
  std::string_view name;
  std::string_view alias;  // nccl-tests' spelling
};
constexpr std::array kDataTypes{
    DataTypeRow{DataType::Int8, DataType::Int8, 1, false, "int8", "char"},
    DataTypeRow{DataType::Uint8, DataType::Uint8, 1, false, "uint8", "byte"},
    DataTypeRow{DataType::Int32, DataType::Int32, 4, false, "int32", "int"},
    DataTypeRow{DataType::Uint32, DataType::Uint32, 4, false, "uint32", "uint"},
    DataTypeRow{DataType::Int64, DataType::Int64, 8, false, "int64", "long"},
    DataTypeRow{DataType::Uint64, DataType::Uint64, 8, false, "uint64", "ulong"},
    DataTypeRow{DataType::Float16, DataType::Float32, 2, true, "float16", "half"},
    DataTypeRow{DataType::Float32, DataType::Float32, 4, true, "float32", "float"},
    DataTypeRow{DataType::Float64, DataType::Float64, 8, true, "float64", "double"},
    DataTypeRow{DataType::BFloat16, DataType::Float32, 2, true, "bfloat16", "bf16"},
    DataTypeRow{DataType::Float8E4M3, DataType::Float32, 1, true, "float8_e4m3", "f8e4m3"},
    DataTypeRow{DataType::Float8E5M2, DataType::Float32, 1, true, "float8_e5m2", "f8e5m2"},
};

struct OpRow {
  ReduceOp op;
  std::string_view name;
};
constexpr std::array kOps{OpRow{ReduceOp::Sum, "sum"}, OpRow{ReduceOp::Prod, "prod"},
                          OpRow{ReduceOp::Min, "min"}, OpRow{ReduceOp::Max, "max"},
                          OpRow{ReduceOp::Avg, "avg"}, OpRow{ReduceOp::PremultipliedSum, "mulsum"}};

struct CollectiveRow {
  Collective collective;
  std::string_view name;
  // Is empty where there is no such form.
  std::string_view varying_name;
  bool reduces;
  bool has_root;
};
constexpr std::array kCollectives{
    CollectiveRow{Collective::AllReduce, "all_reduce", "", true, false},
    CollectiveRow{Collective::ReduceScatter, "reduce_scatter", "reduce_scatter_v", true, false},
    CollectiveRow{Collective::AllGather, "all_gather", "all_gather_v", false, false},
    CollectiveRow{Collective::Broadcast, "broadcast", "", false, true},
    CollectiveRow{Collective::Reduce, "reduce", "", true, true},
    CollectiveRow{Collective::AllToAll, "all_to_all", "all_to_all_v", false, false},
    CollectiveRow{Collective::Gather, "gather", "gather_v", false, true},
    CollectiveRow{Collective::Scatter, "scatter", "scatter_v", false, true},
    CollectiveRow{Collective::Barrier, "barrier", "", true, false},
    CollectiveRow{Collective::Exchange, "exchange", "", false, false},
};

// Returns the first column of a table of rows that start with their key.
template <typename Key, typename Row, std::size_t N>
constexpr std::array<Key, N> keys(const std::array<Row, N>& rows, Key Row::*key) {
  std::array<Key, N> list{};
  std::transform(rows.begin(), rows.end(), list.begin(), [&](const Row& row) { return row.*key; });
  return list;
}
constexpr auto kDataTypeList = keys(kDataTypes, &DataTypeRow::dtype);
constexpr auto kOpList = keys(kOps, &OpRow::op);
constexpr auto kCollectiveList = keys(kCollectives, &CollectiveRow::collective);

template <typename Row, std::size_t N, typename Key>
const Row& row(const std::array<Row, N>& rows, Key key) {
  return rows[static_cast<std::size_t>(key)];
}

template <typename Row, std::size_t N, typename Key>
std::optional<Key> parse(const std::array<Row, N>& rows, std::string_view text, Key Row::*key) {
  for (const Row& candidate : rows) {
    if (text == candidate.name) return candidate.*key;
  }
  return std::nullopt;
}

}  // namespace

std::size_t size_of(DataType dtype) noexcept { return row(kDataTypes, dtype).bytes; }
DataType accumulator_of(DataType dtype) noexcept { return row(kDataTypes, dtype).accumulator; }
bool is_floating(DataType dtype) noexcept { return row(kDataTypes, dtype).floating; }
std::string_view name(DataType dtype) noexcept { return row(kDataTypes, dtype).name; }
std::string_view name(ReduceOp op) noexcept { return row(kOps, op).name; }
std::string_view name(Collective collective) noexcept { return row(kCollectives, collective).name; }
std::string_view name(Collective collective, bool varying) noexcept {
  const CollectiveRow& found = row(kCollectives, collective);
  return varying && !found.varying_name.empty() ? found.varying_name : found.name;
}
bool reduces(Collective collective) noexcept { return row(kCollectives, collective).reduces; }
bool has_root(Collective collective) noexcept { return row(kCollectives, collective).has_root; }
bool counts_agree(Collective collective, bool varying) noexcept {
  return !varying || collective == Collective::AllGather || collective == Collective::ReduceScatter;
}

std::optional<DataType> parse_dtype(std::string_view text) noexcept {
  for (const DataTypeRow& candidate : kDataTypes) {
    if (text == candidate.name || text == candidate.alias) return candidate.dtype;
  }
  return std::nullopt;
}
std::optional<ReduceOp> parse_op(std::string_view text) noexcept { return parse(kOps, text, &OpRow::op); }
std::optional<Collective> parse_collective(std::string_view text) noexcept {
  return parse(kCollectives, text, &CollectiveRow::collective);
}

std::span<const DataType> all_dtypes() noexcept { return kDataTypeList; }
std::span<const ReduceOp> all_ops() noexcept { return kOpList; }
std::span<const Collective> all_collectives() noexcept { return kCollectiveList; }

}  // namespace wreath
