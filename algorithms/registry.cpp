// The table of algorithms. A new one is its own file and one row here.
#include <array>
#include <functional>

#include "wreath/algorithm.hpp"

// Each row is the object that its algorithm's file defines, in the order that tables print.
#define WREATH_ALGORITHMS(ROW)        \
  ROW(kRingAllReduce)                 \
  ROW(kTwoShotAllReduce)              \
  ROW(kOneShotAllReduce)              \
  ROW(kRecursiveDoublingAllReduce)    \
  ROW(kRabenseifnerAllReduce)         \
  ROW(kDoubleTreeAllReduce)           \
  ROW(kDirectReduceScatter)           \
  ROW(kRingReduceScatter)             \
  ROW(kRecursiveHalvingReduceScatter) \
  ROW(kDirectAllGather)               \
  ROW(kRingAllGather)                 \
  ROW(kBruckAllGather)                \
  ROW(kRecursiveDoublingAllGather)    \
  ROW(kDirectBroadcast)               \
  ROW(kBinomialBroadcast)             \
  ROW(kChainBroadcast)                \
  ROW(kDirectReduce)                  \
  ROW(kBinomialReduce)                \
  ROW(kChainReduce)                   \
  ROW(kDirectAllToAll)                \
  ROW(kPairwiseAllToAll)              \
  ROW(kBruckAllToAll)                 \
  ROW(kDirectGather)                  \
  ROW(kBinomialGather)                \
  ROW(kDirectScatter)                 \
  ROW(kBinomialScatter)               \
  ROW(kDisseminationBarrier)

namespace wreath {

#define WREATH_DECLARE_ALGORITHM(row) extern const Algorithm row;
WREATH_ALGORITHMS(WREATH_DECLARE_ALGORITHM)
#undef WREATH_DECLARE_ALGORITHM

std::string_view name(Order order) noexcept {
  constexpr std::array<std::string_view, 3> kNames{"canonical", "ring", "tree"};
  return kNames[static_cast<std::size_t>(order)];
}

#define WREATH_ALGORITHM_AND_COMMA(row) std::cref(row),
std::span<const std::reference_wrapper<const Algorithm>> algorithms() noexcept {
  static constexpr std::array kTable{WREATH_ALGORITHMS(WREATH_ALGORITHM_AND_COMMA)};
  return kTable;
}
#undef WREATH_ALGORITHM_AND_COMMA

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  for (const Algorithm& row : algorithms()) {
    if (row.collective == collective && row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace wreath
