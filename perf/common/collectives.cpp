// The table of perf tools.
#include "perf/common/collectives.hpp"

#include <array>

namespace wreath::perf {
namespace {

constexpr std::array kCollectives{
    CollectiveRow{Collective::AllReduce, "all_reduce_perf", [](int ranks) { return 2.0 * (ranks - 1) / ranks; },
                  [](Member& member, const void* input, void* output, std::size_t count, DataType dtype, ReduceOp op) {
                    return member.all_reduce(input, output, count, dtype, op);
                  }},
};

}  // namespace

std::span<const CollectiveRow> collectives() noexcept { return kCollectives; }

const CollectiveRow& row_of(Collective collective) noexcept {
  return kCollectives[static_cast<std::size_t>(collective)];
}

std::string_view table_name(DataType dtype) noexcept { return dtype == DataType::Float32 ? "float" : name(dtype); }

}  // namespace wreath::perf
