// The collectives that have a perf tool: one row each, read by every part of it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "perf/common/member.hpp"
#include "wreath/types.hpp"

namespace wreath::perf {

struct CollectiveRow {
  Collective collective;
  std::string_view program;         // "all_reduce_perf"
  double (*bus_factor)(int ranks);  // bus bandwidth = bytes / time x this
  Status (*call)(Member&, const void* input, void* output, std::size_t count, DataType, ReduceOp);
};

std::span<const CollectiveRow> collectives() noexcept;
const CollectiveRow& row_of(Collective collective) noexcept;

// nccl-tests' spelling in tables and JSON: "float" for float32.
std::string_view table_name(DataType dtype) noexcept;

}  // namespace wreath::perf
