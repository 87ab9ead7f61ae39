// The v-forms of every row that has them: ragged blocks, none at all, gaps between them.
#include "tests/support/collective_matrix.hpp"

namespace wreath::test {
namespace {

class RaggedBlocks : public testing::TestWithParam<Way> {};

std::vector<std::vector<std::size_t>> ragged(int ranks) {
  const auto size = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> rising(size), holes(size), one_large(size), none(size);
  for (std::size_t i = 0; i < size; ++i) {
    rising[i] = 1 + 13 * i;
    holes[i] = i % 2 == 0 ? 0 : 301 + i;
    one_large[i] = i == size / 2 ? 20'011 : 3;
  }
  return {rising, holes, one_large, none};
}

std::vector<MatrixCase> cases_of(const Way& way, int ranks) {
  std::vector<MatrixCase> cases;
  for (const Algorithm* row : rows_of(way, ranks, kVarying)) {
    for (const std::vector<std::size_t>& counts : ragged(ranks)) {
      for (const bool gaps : {false, true}) {
        for (const DataType dtype : {DataType::Float32, DataType::BFloat16, DataType::Uint8}) {
          const auto root = has_root(row->collective) ? static_cast<Rank>(cases.size()) % ranks : 0;
          cases.push_back({{row->collective, dtype, ReduceOp::Sum, ranks, root, 0, counts, gaps}, row->order});
        }
      }
    }
  }
  return cases;
}

TEST_P(RaggedBlocks, RightResultsWhateverTheirSizes) {
  static DataStore store;
  for (const int n : rank_counts({1, 2, 3, 5, 8, 17})) {
    const std::vector<MatrixCase> cases = cases_of(GetParam(), n);
    if (cases.empty()) continue;
    CommunicatorOptions options = options_of(GetParam());
    options.tile_bytes = 8192;  // the large block has several tiles where the others have one
    LocalRanks ranks(n, options);
    expect_right(ranks, cases, store, text_of(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, RaggedBlocks, testing::ValuesIn(sanitizer_ways(all_ways())), test_name);

}  // namespace
}  // namespace wreath::test
