// Tests every row over every transport: every dtype and operator, odd counts, every kind of memory, 1 to 17 ranks,
// every root. Canonical rows must give the bits of the reference, so all of them give the same bits.
#include "tests/support/row_matrix.hpp"

namespace wreath::test {
namespace {

const RowSuite& row_suite() {
  static const RowSuite suite({shapes_of_ranks({1, 2, 3, 4, 5, 6, 7, 8, 9, 17}),
                               {elements(1), elements(37), elements(1500), elements(0), elements(-1, 1), elements(0, 1),
                                elements(1, 1), elements(5), elements(257), elements(1031), elements(4099)},
                               0,
                               3});
  return suite;
}

class Rows : public testing::TestWithParam<Way> {};

TEST_P(Rows, GiveRightResults) {
  static DataStore store;
  const bool moves_data = GetParam().algorithm != "dissemination";
  EXPECT_EQ(row_suite().expect_right_by(GetParam(), store), moves_data);
}

INSTANTIATE_TEST_SUITE_P(Ways, Rows, testing::ValuesIn(all_ways()), test_name);

// A part of the suite is a row or, under a sanitizer, all rows. Every part must hold all pairs.
TEST(ChosenCases, HoldAllPairsOfValuesThatMayMeet) {
  for (const RowSuite::Part& part : row_suite().parts()) {
    EXPECT_EQ(pairs_missing(part.rows.factors(), part.chosen), 0) << part.rows.row(part.chosen.front()).name;
  }
}

// No rank leaves a barrier before all ranks have entered it.
TEST(Barrier, HoldsEverybody) {
  for (const std::string& transport : usable_transports()) {
    const Way way{"dissemination", transport};
    for (const int n : {1, 2, 3, 5, 8, 17}) {
      record_case(way, {Collective::Barrier, DataType::Uint8, ReduceOp::Sum, n}, {}, false);
      LocalRanks ranks(n, options_of(Way{"", way.transport}));
      std::atomic<int> entered = 0;
      ranks.run([&](Communicator& communicator) {
        for (int round = 1; round <= 20; ++round) {
          entered.fetch_add(1);
          const Status status = communicator.barrier();
          ASSERT_TRUE(status) << status.error().message;
          EXPECT_GE(entered.load(), round * n) << transport << " x " << n;
        }
      });
    }
  }
}

}  // namespace
}  // namespace wreath::test
