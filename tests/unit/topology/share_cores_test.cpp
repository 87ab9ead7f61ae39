// Ranks get cores without overlap and with neighbours together, on machines made for the test and on this machine.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/fake_machine.hpp"
#include "wreath/topology.hpp"

namespace wreath {
namespace {

using Shares = std::vector<std::vector<int>>;

Shares share(const test::Shape& shape, int ranks, const std::string& allowed = "") {
  const test::FakeMachine machine;
  machine.processors(shape);
  if (!allowed.empty()) machine.allow(allowed);
  return share_cores(read_topology(machine.root()), ranks);
}

TEST(ShareCores, KeepsTheThreadsOfACoreTogether) {
  EXPECT_EQ(share({1, 1, 4, 2}, 4), (Shares{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(share({1, 1, 4, 2}, 2), (Shares{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(ShareCores, GivesThreadsWhereThereAreNotEnoughCores) {
  EXPECT_EQ(share({1, 1, 2, 2}, 4), (Shares{{0}, {2}, {1}, {3}}));
  EXPECT_EQ(share({1, 1, 2, 2}, 3), (Shares{{0}, {2}, {1, 3}}));
}

TEST(ShareCores, DoesNotStraddlePackagesAndNodes) {
  EXPECT_EQ(share({2, 1, 4, 1}, 3), (Shares{{0, 1}, {2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(share({2, 2, 2, 1}, 4), (Shares{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(share({2, 2, 2, 1}, 2), (Shares{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(ShareCores, GivesSeveralNodesToFewRanks) { EXPECT_EQ(share({3, 1, 2, 1}, 2), (Shares{{0, 1, 2, 3}, {4, 5}})); }

TEST(ShareCores, StaysWithinWhatIsAllowed) {
  EXPECT_EQ(share({2, 1, 4, 2}, 2, "1-2,5"), (Shares{{1, 2}, {5}}));
  EXPECT_EQ(share({2, 1, 4, 1}, 1, "3,6"), (Shares{{3, 6}}));
}

TEST(ShareCores, CountsCoresAndNotTheirThreads) {
  EXPECT_EQ(share({2, 1, 4, 2}, 6, "0-1,4-9"), (Shares{{0, 8}, {1, 9}, {4}, {5}, {6}, {7}}));
}

TEST(ShareCores, OfOneRankIsAllThatIsAllowed) { EXPECT_EQ(share({1, 1, 2, 2}, 1), (Shares{{0, 1, 2, 3}})); }

TEST(ShareCores, GivesEverythingToRanksThatAreTooMany) {
  EXPECT_EQ(share({1, 1, 2, 1}, 3), (Shares{{0, 1}, {0, 1}, {0, 1}}));
}

TEST(ShareCores, OfNoRankIsNothing) {
  EXPECT_TRUE(share({1, 1, 2, 1}, 0).empty());
  EXPECT_TRUE(share({1, 1, 2, 1}, -1).empty());
}

TEST(ShareCores, WorksWithoutAnythingToRead) {
  const test::FakeMachine nothing;
  EXPECT_EQ(share_cores(read_topology(nothing.root()), 1), (Shares{{0}}));
}

// Expects that each rank gets a thread of a core and that no two ranks get the same one. While there are enough cores,
// ranks get whole cores.
void expect_fair(const test::Shape& shape, const Topology& topology, int ranks) {
  const Shares shares = share_cores(topology, ranks);
  ASSERT_EQ(shares.size(), static_cast<std::size_t>(ranks));
  std::set<int> seen;
  const int cores = shape.packages * shape.nodes * shape.cores;
  for (const std::vector<int>& share : shares) {
    EXPECT_FALSE(share.empty());
    EXPECT_TRUE(std::is_sorted(share.begin(), share.end()));
    for (const int number : share) EXPECT_TRUE(seen.insert(number).second) << number;
    std::map<int, int> threads;
    for (const int number : share) ++threads[number % cores];
    for (const auto& [core, count] : threads) {
      if (ranks <= cores) {
        EXPECT_EQ(count, shape.threads) << core;
      }
    }
  }
}

TEST(ShareCores, IsFairOnEveryShape) {
  for (const int packages : {1, 3}) {
    for (const int nodes : {1, 2}) {
      for (const int threads : {1, 2, 3}) {
        const test::Shape shape{packages, nodes, 3, threads};
        const test::FakeMachine machine;
        machine.processors(shape);
        const Topology topology = read_topology(machine.root());
        for (int ranks = 1; ranks <= packages * nodes * 3 * threads; ++ranks) {
          SCOPED_TRACE(fmt::format("{} packages of {} nodes, {} threads, {} ranks", packages, nodes, threads, ranks));
          expect_fair(shape, topology, ranks);
        }
      }
    }
  }
}

TEST(ShareCores, OfThisMachineGivesEachRankACoreItMayUse) {
  const Topology topology = read_topology();
  const auto ranks = static_cast<int>(topology.allowed.size());
  std::set<int> given;
  for (const std::vector<int>& share : share_cores(topology, ranks)) {
    ASSERT_EQ(share.size(), 1u);
    EXPECT_TRUE(std::binary_search(topology.allowed.begin(), topology.allowed.end(), share.front()));
    given.insert(share.front());
  }
  EXPECT_EQ(given.size(), topology.allowed.size());
}

}  // namespace
}  // namespace wreath
