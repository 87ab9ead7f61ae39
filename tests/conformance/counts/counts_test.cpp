// Every row over every transport: odd counts, every kind of memory, 1 to 17 ranks, every root.
#include "tests/support/collective_matrix.hpp"

namespace wreath::test {
namespace {

DataStore& store() {
  static DataStore kept;
  return kept;
}

class Counts : public testing::TestWithParam<Way> {};

TEST_P(Counts, RightResultsForOddCounts) {
  for (const int n : rank_counts({1, 2, 3, 5, 8, 17})) {
    const auto rows = rows_of(GetParam(), n);
    if (rows.empty()) continue;
    const auto size = static_cast<std::size_t>(n);
    std::vector<MatrixCase> cases;
    for (const Algorithm* row : rows) {
      for (const DataType dtype : {DataType::Int32, DataType::Float32}) {
        for (const std::size_t count :
             {std::size_t{0}, std::size_t{1}, size - 1, size, size + 1, std::size_t{257}, std::size_t{4099}}) {
          const Rank root = has_root(row->collective) ? static_cast<Rank>(cases.size() % size) : 0;
          cases.push_back({{row->collective, dtype, ReduceOp::Sum, n, root, count, {}, false}, row->order});
        }
      }
    }
    LocalRanks ranks(n, options_of(GetParam()));
    expect_right(ranks, cases, store(), text_of(GetParam()));
  }
}

TEST_P(Counts, RightResultsForEveryRoot) {
  for (const int n : rank_counts({2, 3, 6, 9})) {
    std::vector<MatrixCase> cases;
    for (const Algorithm* row : rows_of(GetParam(), n)) {
      if (!has_root(row->collective)) continue;
      for (Rank root = 0; root < n; ++root) {
        for (const std::size_t count : {std::size_t{5}, std::size_t{1031}}) {
          cases.push_back({{row->collective, DataType::Float32, ReduceOp::Sum, n, root, count, {}, false}, row->order});
        }
      }
    }
    if (cases.empty()) continue;
    LocalRanks ranks(n, options_of(GetParam()));
    expect_right(ranks, cases, store(), text_of(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Counts, testing::ValuesIn(all_ways()), test_name);

// Nobody leaves a barrier before everybody has entered it.
TEST(Barrier, HoldsEverybody) {
  for (const TransportRow& transport : transports()) {
    for (const int n : {1, 2, 3, 5, 8, 17}) {
      LocalRanks ranks(n, options_of({"", std::string(transport.name)}));
      std::atomic<int> entered = 0;
      ranks.run([&](Communicator& communicator) {
        for (int round = 1; round <= 20; ++round) {
          entered.fetch_add(1);
          const Status status = communicator.barrier();
          ASSERT_TRUE(status) << status.error().message;
          EXPECT_GE(entered.load(), round * n) << transport.name << " x " << n;
        }
      });
    }
  }
}

}  // namespace
}  // namespace wreath::test
