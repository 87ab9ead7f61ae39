// Tests every row over every transport with calls cut in many ways: many tiles, several data lanes, few slots, wrapping
// sequences.
#include "tests/support/row_matrix.hpp"

namespace wreath::test {
namespace {

class Cuts : public testing::TestWithParam<Way> {};

TEST_P(Cuts, RightResultsHoweverCallsAreCut) {
  static DataStore store;
  constexpr std::uint32_t kWraps = 0xFFFFFFFDu;
  const std::vector<Shape> shapes{
      {3, 4096, 1, 4, kWraps}, {4, 4096, 2, 1, kWraps}, {3, 8192, 3, 2, kWraps}, {2, 4096, 2, 8, kWraps}};
  static const RowSuite suite({shapes, {elements(47), elements(1024), elements(30'011)}});
  EXPECT_EQ(suite.expect_right_by(GetParam(), store), GetParam().algorithm != "dissemination");
}

INSTANTIATE_TEST_SUITE_P(Ways, Cuts, testing::ValuesIn(all_ways()), test_name);

}  // namespace
}  // namespace wreath::test
