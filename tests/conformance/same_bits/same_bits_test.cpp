// The same inputs give the same bits: float sums do not depend on algorithm, transport, lanes, tiles, offsets, kind of
// memory or place. They depend only on the number of ranks.
#include "tests/support/collective_matrix.hpp"
#include "tests/support/pairwise.hpp"
#include "tests/support/processes.hpp"

namespace wreath::test {
namespace {

constexpr int kSumRanks[] = {2, 3, 4, 5, 6, 7, 8, 9, 16};
constexpr DataType kSumTypes[] = {DataType::Float32, DataType::BFloat16};
constexpr std::size_t kSumCounts[] = {1, 3, 14, 15, 256, 257, 4096, 5000, 16'411, (std::size_t{1} << 20) / 4 + 1};
constexpr int kMostRanksOfLargestSum = 4;  // for the last count

struct CutWay {
  Way way;  // without an algorithm the tuner chooses
  int lanes = 0;
  std::size_t tile_bytes = 0;

  bool serves(int ranks) const {
    const Algorithm* const row = find_algorithm(Collective::AllReduce, way.algorithm);
    return row == nullptr || row->supports({Collective::AllReduce, ranks, 0});
  }
};

std::vector<CutWay> canonical_ways() {
  std::vector<CutWay> all;
  for (Way way : transport_ways()) {
    all.push_back({way, 0, 0});
    for (const Algorithm& row : algorithms()) {
      if (row.collective != Collective::AllReduce || row.order != Order::Canonical) continue;
      way.algorithm = row.name;
      all.push_back({way, 0, 0});
      all.push_back({way, 3, 4096});
    }
  }
  return all;
}

// Chooses pairs of ranks, ways, counts and types, or all combinations with WREATH_TEST_LONG=1.
class SameBitCases {
 public:
  enum Factor { kOfRanks, kOfWays, kOfCounts, kOfTypes };
  SameBitCases() : ways_(canonical_ways()) {
    factors_.sizes = {static_cast<int>(std::size(kSumRanks)), static_cast<int>(ways_.size()),
                      static_cast<int>(std::size(kSumCounts)), static_cast<int>(std::size(kSumTypes))};
    factors_.fit = [this](int factor, int value, int later, int other) {
      const int ranks = factor == kOfRanks ? kSumRanks[value] : 0;
      if (factor != kOfRanks) return true;
      if (later == kOfWays) return ways_[static_cast<std::size_t>(other)].serves(ranks);
      return later != kOfCounts || other + 1 < static_cast<int>(std::size(kSumCounts)) ||
             ranks <= kMostRanksOfLargestSum;
    };
    chosen_ = testing_support::takes_every_case() ? all_combinations(factors_) : pairwise(factors_);
  }
  SameBitCases(const SameBitCases&) = delete;
  SameBitCases& operator=(const SameBitCases&) = delete;

  const std::vector<CutWay>& ways() const { return ways_; }
  // Returns the cases for an index into kSumRanks and an index into ways().
  std::vector<MatrixCase> cases(int ranks, int way) const {
    std::vector<MatrixCase> cases;
    for (const Choice& choice : chosen_) {
      if (choice[kOfRanks] != ranks || choice[kOfWays] != way) continue;
      const std::size_t number = static_cast<std::size_t>(&choice - chosen_.data());
      cases.push_back({{Collective::AllReduce, kSumTypes[choice[kOfTypes]], ReduceOp::Sum, kSumRanks[ranks], 0,
                        kSumCounts[choice[kOfCounts]]},
                       Order::Canonical,
                       arrangement_of(number)});
    }
    return cases;
  }

 private:
  std::vector<CutWay> ways_;
  Factors factors_;
  std::vector<Choice> chosen_;
};

class SameBits : public testing::TestWithParam<int> {};

TEST_P(SameBits, WhateverTheWay) {
  static DataStore store;
  static const SameBitCases all;
  const auto ranks =
      static_cast<int>(std::find(std::begin(kSumRanks), std::end(kSumRanks), GetParam()) - std::begin(kSumRanks));
  for (std::size_t way = 0; way < all.ways().size(); ++way) {
    const CutWay& each = all.ways()[way];
    const std::vector<MatrixCase> cases = all.cases(ranks, static_cast<int>(way));
    if (cases.empty()) continue;
    CommunicatorOptions options = options_of(each.way);
    options.overrides.lanes = each.lanes;
    options.overrides.tile_bytes = each.tile_bytes;
    LocalRanks group(GetParam(), options);
    expect_right(group, cases, store, {each.way, fmt::format(", lanes {} tile {}", each.lanes, each.tile_bytes)});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, testing::ValuesIn(kSumRanks));

TEST(SameBitsOfLargeSums, UpToSixteenMebibytes) {
  for (const int n : {2, 3}) {
    const CollectiveCase work{
        Collective::AllReduce, DataType::Float32, ReduceOp::Sum, n, 0, (std::size_t{16} << 20) / 4, {}, false};
    const CollectiveData data(work.dtype, work.op, n, work.count, Values::Revealing);
    for (const Way& way : transport_ways()) {
      for (const bool shared : {false, true}) {
        LocalRanks ranks(n, options_of(way));
        ranks.run([&](Communicator& communicator) {
          const CollectiveRun run(work, data, communicator.rank(), {4, 8, communicator.rank() == 1, shared});
          const Status status = run_case(communicator, way, run);
          ASSERT_TRUE(status) << status.error().message;
          EXPECT_EQ(run.wrong(), "") << text_of(way);
        });
      }
    }
  }
}

}  // namespace
}  // namespace wreath::test
