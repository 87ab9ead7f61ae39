// Every row over every transport, however calls are cut: many tiles, several data lanes, few slots, wrapping sequences.
#include "tests/support/collective_matrix.hpp"

namespace wreath::test {
namespace {

struct Cutting {
  int ranks;
  int lanes;
  std::size_t tile_bytes;
  std::uint32_t slots;
};
constexpr Cutting kCuttings[] = {{3, 1, 4096, 4}, {4, 2, 4096, 1}, {3, 3, 8192, 2}, {2, 2, 4096, 8}};

class Cuts : public testing::TestWithParam<Way> {};

TEST_P(Cuts, RightResultsHoweverCallsAreCut) {
  static DataStore store;
  for (const Cutting& cutting : kCuttings) {
    std::vector<MatrixCase> cases;
    for (const Algorithm* row : rows_of(GetParam(), cutting.ranks)) {
      for (const std::size_t count : {std::size_t{47}, std::size_t{1024}, std::size_t{30'011}}) {
        for (const DataType dtype : {DataType::Int32, DataType::Float32, DataType::Float16}) {
          const auto root = has_root(row->collective) ? static_cast<Rank>(cases.size()) % cutting.ranks : 0;
          cases.push_back({{row->collective, dtype, ReduceOp::Sum, cutting.ranks, root, count, {}, false}, row->order});
        }
      }
    }
    if (cases.empty()) continue;
    CommunicatorOptions options = options_of(GetParam());
    options.lanes = cutting.lanes;
    options.tile_bytes = cutting.tile_bytes;
    options.slot_count = cutting.slots;
    options.first_sequence = 0xFFFFFFFDu;
    LocalRanks ranks(cutting.ranks, options);
    expect_right(ranks, cases, store,
                 fmt::format("{}, lanes {} tile {} slots {}", text_of(GetParam()), cutting.lanes, cutting.tile_bytes,
                             cutting.slots));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Cuts, testing::ValuesIn(all_ways()), test_name);

}  // namespace
}  // namespace wreath::test
