// Lanes of lower numbers come first where a call wants so: sums get ahead of copies by as many messages as headers.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "src/schedule/lower.hpp"
#include "tests/unit/executor/job.hpp"
#include "wreath/algorithm.hpp"

namespace wreath {
namespace {

constexpr std::uint32_t kTilesOfAPart = 24;
constexpr int kHeaders = 8;
constexpr std::uint64_t kTinyTileBytes = 128;

// Runs two ranks in turns, a step each. Returns by how many tiles rank 0's sums were ahead of its copies at most.
int most_tiles_ahead(LaneOrder order, HandwrittenLoop loop, std::uint64_t single_copy_bytes = 1) {
  const Problem problem{.collective = Collective::AllReduce, .ranks = 2};
  const Algorithm& two_shot = *find_algorithm(Collective::AllReduce, "two_shot");
  std::vector<Lowered> programs;
  for (const Rank me : {0, 1}) programs.push_back(std::move(lower(two_shot.build(problem, me), me, 1)).value());
  std::mt19937_64 random(1);
  const JobShape shape{.count = kTilesOfAPart * kTinyTileBytes * 2 / 4, .tile_bytes = kTinyTileBytes, .in_place = true};
  Job job(two_shot, problem, programs[0], shape, random);
  World world(
      std::move(programs),
      WorldShape{
          .slots = 2, .single_copy_bytes = single_copy_bytes, .loop = loop, .headers = kHeaders, .order = order});
  const std::vector<RankCall> calls = job.calls();
  for (const std::size_t rank : {0U, 1U}) world.start(rank, calls[rank]);
  int ahead = 0;
  bool done[2] = {};
  for (int round = 0; round < 1000 && !(done[0] && done[1]); ++round) {
    for (const std::size_t rank : {0U, 1U}) {
      if (!done[rank]) done[rank] = world.scheduler(rank).run(1) == Advance::Done;
    }
    const LaneState& sums = world.scheduler(0).lane(1);
    const LaneState& copies = world.scheduler(0).lane(2);
    if (!sums.done) ahead = std::max(ahead, static_cast<int>(sums.tile) - static_cast<int>(copies.tile));
  }
  EXPECT_TRUE(done[0] && done[1]);
  EXPECT_EQ(job.wrong(), "");
  return ahead;
}

TEST(LaneOrder, LetsSumsGetAheadByAllHeaders) {
  for (const HandwrittenLoop loop : {HandwrittenLoop::None, HandwrittenLoop::TwoShotAllReduce}) {
    EXPECT_GE(most_tiles_ahead(LaneOrder::Lowest, loop), kHeaders);
    EXPECT_LE(most_tiles_ahead(LaneOrder::Turns, loop), 3);
  }
}

TEST(LaneOrder, KeepsToThePlacesOfStagedResults) {
  EXPECT_LT(most_tiles_ahead(LaneOrder::Lowest, HandwrittenLoop::None, 0), kHeaders);
}

}  // namespace
}  // namespace wreath
