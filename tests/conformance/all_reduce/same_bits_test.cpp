// Same inputs, same bits: float sums do not depend on algorithm, transport, lanes, tiles, offsets,
// memory kind or place; only on the number of ranks.
#include "tests/support/collective_matrix.hpp"

namespace wreath::test {
namespace {

struct CutWay {
  Way way;  // no algorithm: the tuner's choice
  int lanes = 0;
  std::size_t tile_bytes = 0;
};

std::vector<CutWay> canonical_ways(int ranks) {
  std::vector<CutWay> all;
  for (Way way : transport_ways()) {
    all.push_back({way, 0, 0});
    for (const Algorithm& row : algorithms()) {
      if (row.collective != Collective::AllReduce || row.order != Order::Canonical) continue;
      if (!row.supports({Collective::AllReduce, ranks, 0})) continue;
      way.algorithm = row.name;
      all.push_back({way, 0, 0});
      all.push_back({way, 3, 4096});
    }
  }
  return all;
}

class SameBits : public testing::TestWithParam<int> {};

TEST_P(SameBits, WhateverTheWay) {
  static DataStore store;
  const int n = GetParam();
  std::vector<std::size_t> counts{1, 3, 14, 15, 256, 257, 4096, 5000, 16'411};
  if (n <= 4) counts.push_back((std::size_t{1} << 20) / 4 + 1);
  std::vector<MatrixCase> cases;
  for (const std::size_t count : counts) {
    for (const DataType dtype : {DataType::Float32, DataType::BFloat16}) {
      cases.push_back({{Collective::AllReduce, dtype, ReduceOp::Sum, n, 0, count, {}, false}, Order::Canonical});
    }
  }
  for (const CutWay& each : canonical_ways(n)) {
    CommunicatorOptions options = options_of(each.way);
    options.lanes = each.lanes;
    options.tile_bytes = each.tile_bytes;
    LocalRanks ranks(n, options);
    expect_right(ranks, cases, store,
                 fmt::format("{}, lanes {} tile {}", text_of(each.way), each.lanes, each.tile_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SameBits, testing::Values(2, 3, 4, 5, 6, 7, 8, 9, 16));

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
          const Status status = communicator.run(run.call());
          ASSERT_TRUE(status) << status.error().message;
          EXPECT_EQ(run.wrong(), "") << text_of(way);
        });
      }
    }
  }
}

}  // namespace
}  // namespace wreath::test
