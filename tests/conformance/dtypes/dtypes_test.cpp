// Every row over every transport for every dtype and operator. Canonical rows are held to the bits of the reference, so
// all of them give the same bits.
#include "tests/support/collective_matrix.hpp"

namespace wreath::test {
namespace {

class DataTypes : public testing::TestWithParam<Way> {};

void append_cases(const Algorithm& row, int ranks, std::vector<MatrixCase>& cases) {
  for (const DataType dtype : all_dtypes()) {
    for (const ReduceOp op : all_ops()) {
      if (!reduces(row.collective) && op != ReduceOp::Sum) continue;
      for (const std::size_t count : {std::size_t{1}, std::size_t{37}, std::size_t{1500}}) {
        const auto root = has_root(row.collective) ? static_cast<Rank>(cases.size()) % ranks : 0;
        cases.push_back({{row.collective, dtype, op, ranks, root, count, {}, false}, row.order});
      }
    }
  }
}

TEST_P(DataTypes, RightResultsForEveryDtypeAndOperator) {
  static DataStore store;
  for (const int n :
       rank_counts(GetParam().transport == "inproc" ? std::vector{1, 2, 3, 4, 7, 8} : std::vector{3, 4})) {
    std::vector<MatrixCase> cases;
    for (const Algorithm* row : rows_of(GetParam(), n)) append_cases(*row, n, cases);
    if (cases.empty()) continue;
    LocalRanks ranks(n, options_of(GetParam()));
    expect_right(ranks, cases, store, text_of(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, DataTypes, testing::ValuesIn(all_ways()), test_name);

}  // namespace
}  // namespace wreath::test
