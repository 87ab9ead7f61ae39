// Tests the pairwise choice that suites of rows use: every pair of values that may stand together is chosen, and no
// other pair.
#include "tests/support/pairwise.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

namespace wreath::test {
namespace {

using Pair = std::tuple<int, int, int, int>;

void insert_pairs_of(const Choice& choice, std::set<Pair>& pairs) {
  for (std::size_t one = 0; one < choice.size(); ++one) {
    for (std::size_t two = one + 1; two < choice.size(); ++two) {
      pairs.insert({static_cast<int>(one), choice[one], static_cast<int>(two), choice[two]});
    }
  }
}

// Returns false for values that add up to a multiple of five. The last value of a factor meets only the first two
// values of the next factor.
bool seldom_fit(int factor, int value, int later, int other) {
  if (later == factor + 1 && value == 3 + factor) return other < 2;
  return (factor + value + later + other) % 5 != 0;
}

TEST(Pairwise, HoldsTheVeryPairsOfAllCombinations) {
  for (const Factors::Test& fit : {Factors::Test(), Factors::Test(seldom_fit)}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const Factors factors{{4, 5, 3, 6, 2}, fit, {}};
      std::set<Pair> possible;
      for (const Choice& each : all_combinations(factors)) insert_pairs_of(each, possible);
      std::set<Pair> chosen;
      for (const Choice& each : pairwise(factors, seed)) insert_pairs_of(each, chosen);
      EXPECT_EQ(chosen, possible) << "seed " << seed;
    }
  }
}

TEST(Pairwise, TakesFewOfAllCombinations) {
  const Factors factors{{10, 12, 6, 9, 4, 8, 7}, {}, {}};
  EXPECT_LE(pairwise(factors).size(), 140u);  // of 1,451,520; two factors alone have 120 pairs
  EXPECT_EQ(pairwise({{4}, {}, {}}).size(), 0u);
  EXPECT_EQ(pairwise({{1, 1}, {}, {}}).size(), 1u);
}

TEST(Pairwise, LeavesOutWhatIsNotWanted) {
  const auto wanted = [](int factor, int, int, int) { return factor == 0; };
  const Factors factors{{3, 20, 20}, {}, wanted};
  EXPECT_LE(pairwise(factors).size(), 70u);  // 60 pairs with the first factor; the others have 400
  EXPECT_EQ(pairs_missing(factors, pairwise(factors)), 0);
}

TEST(Pairwise, IsTheSameEachTime) {
  const Factors factors{{5, 4, 3}, seldom_fit, {}};
  EXPECT_EQ(pairwise(factors), pairwise(factors));
}

TEST(PairsMissing, AreCounted) {
  const Factors factors{{2, 2}, {}, {}};
  EXPECT_EQ(pairs_missing(factors, {{0, 0}, {1, 1}}), 2);
  EXPECT_EQ(pairs_missing(factors, {{0, 0}, {1, 1}, {0, 1}, {1, 0}}), 0);
}

}  // namespace
}  // namespace wreath::test
