// Tests what the rows of the table of algorithms promise beyond what verify() proves: the table, their costs in known
// cases, and their shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "wreath/algorithm.hpp"

namespace wreath::algorithm_rows {
namespace {

std::string label(const Algorithm& row, const Problem& problem) {
  return std::string(name(row.collective)) + " " + std::string(row.name) + " on " + std::to_string(problem.ranks) +
         " ranks, root " + std::to_string(problem.root);
}

std::vector<Problem> problems(const Algorithm& row, int ranks) {
  std::vector<Problem> all;
  for (Rank root = 0; root < (has_root(row.collective) ? ranks : 1); ++root) {
    const Problem problem{row.collective, ranks, root};
    if (row.supports(problem)) all.push_back(problem);
  }
  return all;
}

const Algorithm& row_of(Collective collective, std::string_view name) {
  const Algorithm* row = find_algorithm(collective, name);
  if (row == nullptr) throw std::invalid_argument(std::string(name));
  return *row;
}

bool same(const Line& a, const Line& b) {
  return a.word == b.word && a.peers == b.peers && a.from_lane == b.from_lane && a.form == b.form &&
         a.source == b.source && a.target == b.target && a.staged == b.staged;
}

std::size_t count(const Schedule& schedule, Word word) {
  std::size_t found = 0;
  for (const Lane& lane : schedule.lanes()) {
    for (const Line& line : lane.lines()) found += line.word == word ? 1 : 0;
  }
  return found;
}

TEST(Rows, HaveNamesOfTheirOwn) {
  std::set<std::pair<Collective, std::string_view>> names;
  for (const Algorithm& row : algorithms()) {
    EXPECT_TRUE(names.emplace(row.collective, row.name).second) << name(row.collective) << " " << row.name;
    EXPECT_EQ(find_algorithm(row.collective, row.name), &row);
  }
}

TEST(Rows, GiveEveryCollectiveACanonicalRowAtAnySize) {
  for (const Collective collective : all_collectives()) {
    // The schedule of an exchange is made for its call, so the table has no row for it.
    if (collective == Collective::Exchange) continue;
    for (const int ranks : {1, 2, 3, 7, 64, 257, 258, 1000, 1024}) {
      const auto fits = [&](const Algorithm& row) {
        return row.collective == collective && row.order == Order::Canonical && row.supports({collective, ranks});
      };
      EXPECT_TRUE(std::any_of(algorithms().begin(), algorithms().end(), fits)) << name(collective) << " " << ranks;
    }
  }
}

TEST(Rows, GiveEveryVaryingCallACanonicalRowAtAnySize) {
  for (const Collective collective : {Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll,
                                      Collective::Gather, Collective::Scatter}) {
    for (const int ranks : {1, 2, 7, 258}) {
      const auto fits = [&](const Algorithm& row) {
        return row.collective == collective && row.order == Order::Canonical && (row.traits & kVarying) != 0 &&
               row.supports({collective, ranks});
      };
      EXPECT_TRUE(std::any_of(algorithms().begin(), algorithms().end(), fits)) << name(collective) << " " << ranks;
    }
  }
}

TEST(Rows, BuildTheSameScheduleEveryTime) {
  for (const Algorithm& row : algorithms()) {
    for (const Problem& problem : problems(row, 8)) {
      for (Rank rank = 0; rank < problem.ranks; ++rank) {
        const Schedule first = row.build(problem, rank), second = row.build(problem, rank);
        ASSERT_EQ(first.lanes().size(), second.lanes().size());
        for (std::size_t lane = 0; lane < first.lanes().size(); ++lane) {
          const auto& a = first.lanes()[lane].lines();
          const auto& b = second.lanes()[lane].lines();
          EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) << label(row, problem);
        }
      }
    }
  }
}

TEST(Rows, SayFewLinesForAThousandRanks) {
  for (const Algorithm& row : algorithms()) {
    const Problem problem{row.collective, 1024, 0};
    if (!row.supports(problem)) continue;
    for (const Rank rank : {0, 1, 511, 1023}) {
      std::size_t lines = 0;
      const Schedule schedule = row.build(problem, rank);
      for (const Lane& lane : schedule.lanes()) lines += lane.lines().size();
      EXPECT_LE(lines, 6 * 1024u) << label(row, problem);
    }
  }
}

TEST(Rows, MoveNothingOnOneRank) {
  for (const Algorithm& row : algorithms()) {
    const Problem problem{row.collective, 1, 0};
    if (!row.supports(problem)) continue;
    const Cost cost = row.cost(problem);
    EXPECT_EQ(cost.steps, 0) << label(row, problem);
    EXPECT_EQ(cost.bytes, 0) << label(row, problem);
    EXPECT_EQ(count(row.build(problem, 0), Word::Copy), 1u) << label(row, problem);
  }
}

struct KnownCost {
  Collective collective;
  const char* row;
  int ranks;
  int steps;
  double bytes;
};

// The costs are worked out by hand from the papers' formulas.
class KnownCosts : public testing::TestWithParam<KnownCost> {};

TEST_P(KnownCosts, AreWhatTheRowSays) {
  const KnownCost& known = GetParam();
  const Cost cost = row_of(known.collective, known.row).cost({known.collective, known.ranks});
  EXPECT_EQ(cost.steps, known.steps);
  EXPECT_DOUBLE_EQ(cost.bytes, known.bytes);
}

INSTANTIATE_TEST_SUITE_P(Rows, KnownCosts,
                         testing::Values(KnownCost{Collective::AllReduce, "ring", 8, 14, 1.75},
                                         KnownCost{Collective::AllReduce, "one_shot", 8, 1, 7},
                                         KnownCost{Collective::AllReduce, "two_shot", 8, 2, 1.75},
                                         KnownCost{Collective::AllReduce, "recursive_doubling", 8, 3, 3},
                                         KnownCost{Collective::AllReduce, "recursive_doubling", 7, 4, 3},
                                         KnownCost{Collective::AllReduce, "rabenseifner", 8, 6, 1.75},
                                         KnownCost{Collective::AllReduce, "rabenseifner", 5, 6, 2.5},
                                         KnownCost{Collective::AllReduce, "double_tree", 8, 6, 2},
                                         KnownCost{Collective::ReduceScatter, "recursive_halving", 8, 3, 0.875},
                                         KnownCost{Collective::AllGather, "bruck", 5, 3, 0.8},
                                         KnownCost{Collective::AllGather, "recursive_doubling", 16, 4, 0.9375},
                                         KnownCost{Collective::Broadcast, "binomial", 8, 3, 3},
                                         KnownCost{Collective::Broadcast, "chain", 8, 7, 1},
                                         KnownCost{Collective::Reduce, "binomial", 8, 3, 1},
                                         KnownCost{Collective::AllToAll, "pairwise", 8, 7, 0.875},
                                         KnownCost{Collective::AllToAll, "bruck", 8, 3, 1.5},
                                         KnownCost{Collective::Gather, "binomial", 8, 3, 0.5},
                                         KnownCost{Collective::Scatter, "binomial", 8, 3, 0.875},
                                         KnownCost{Collective::Barrier, "dissemination", 9, 4, 4}),
                         [](const testing::TestParamInfo<KnownCost>& known) {
                           return std::string(name(known.param.collective)) + "_" + known.param.row + "_" +
                                  std::to_string(known.param.ranks);
                         });

TEST(DoubleTree, GivesARankChildrenInOneTreeAtMost) {
  const Algorithm& row = row_of(Collective::AllReduce, "double_tree");
  for (int ranks = 2; ranks <= 130; ++ranks) {
    const Problem problem{row.collective, ranks};
    for (Rank rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = row.build(problem, rank);
      int trees_with_children = 0;
      for (const Lane& lane : schedule.lanes()) {
        const auto children = std::count_if(lane.lines().begin(), lane.lines().end(),
                                            [](const Line& line) { return line.word == Word::RecvReduce; });
        EXPECT_LE(children, 2) << label(row, problem);
        trees_with_children += children > 0 ? 1 : 0;
      }
      EXPECT_LE(trees_with_children, 1) << label(row, problem) << ", rank " << rank;
    }
  }
}

TEST(BinomialReduce, SendsOnceFromEveryRankButTheRoot) {
  const Algorithm& row = row_of(Collective::Reduce, "binomial");
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const Problem& problem : problems(row, ranks)) {
      for (Rank rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(count(row.build(problem, rank), Word::Send), rank == problem.root ? 0u : 1u)
            << label(row, problem) << ", rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace wreath::algorithm_rows
