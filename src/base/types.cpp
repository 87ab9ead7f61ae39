// Holds the tables of operators and collectives, and answers questions about dtypes.
#include "wreath/types.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

namespace wreath {
namespace {

// A row of kDataTypes without its element type.
struct DataTypeFacts {
  DataType dtype;
  DataType accumulator;
  std::size_t bytes;
  bool floating;
  std::string_view name;
  std::string_view nccl_tests;
  std::string_view alias;
};
template <typename T>
constexpr DataTypeFacts facts_of(const DataTypeRow<T>& row) {
  return {row.dtype, dtype_of<Accumulator<T>>, sizeof(T), !std::is_integral_v<T>, row.name, row.nccl_tests, row.alias};
}
using DataTypeTable = std::array<DataTypeFacts, kDataTypeCount>;
constexpr auto kFacts = table_by_dtype<DataTypeTable>([](const auto& row) { return facts_of(row); });

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
  // The name is empty where there is no such form.
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
constexpr auto kDataTypeList = keys(kFacts, &DataTypeFacts::dtype);
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

std::size_t size_of(DataType dtype) noexcept { return row(kFacts, dtype).bytes; }
DataType accumulator_of(DataType dtype) noexcept { return row(kFacts, dtype).accumulator; }
bool is_floating(DataType dtype) noexcept { return row(kFacts, dtype).floating; }
std::string_view name(DataType dtype) noexcept { return row(kFacts, dtype).name; }
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
  for (const DataTypeFacts& candidate : kFacts) {
    if (text == candidate.name || text == candidate.nccl_tests || text == candidate.alias) return candidate.dtype;
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
