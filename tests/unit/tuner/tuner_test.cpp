// A choice is always a row that serves. Choices rise with size, and a named row is chosen where it exists.
#include "src/tuner/tuner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "src/schedule/lower.hpp"
#include "wreath/fifo.hpp"
#include "wreath/link.hpp"

namespace wreath {
namespace {

constexpr std::size_t kSlotBytes = 512 * 1024;
// The largest block on the small path, except for an all_reduce.
constexpr std::size_t kSmallBlockBytes = 6 * 1024;

TunerContext context(int ranks, bool all_mapped) {
  TunerContext made;
  made.ranks = ranks;
  made.wire = all_mapped ? "" : "tcp";
  made.slot_bytes = kSlotBytes;
  return made;
}

std::vector<Collective> collectives() {
  std::vector<Collective> all;
  for (const Collective collective : all_collectives()) {
    if (collective != Collective::Exchange) all.push_back(collective);
  }
  return all;
}

Query query(Collective collective, std::size_t bytes, bool varying = false) {
  return {collective, bytes, varying, false};
}

TEST(Tuner, FindsAReproducibleRowForEveryCollectiveAndSize) {
  for (const Collective collective : collectives()) {
    for (const int ranks : {1, 2, 3, 4, 7, 16, 257, 300, 1024}) {
      for (const bool mapped : {false, true}) {
        for (const std::size_t bytes :
             {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{1} << 30, kUnknownBytes}) {
          for (const bool varying : {false, true}) {
            if (varying && name(collective, true) == name(collective)) continue;
            const Choice choice = choose(context(ranks, mapped), query(collective, bytes, varying));
            ASSERT_NE(choice.algorithm, nullptr) << name(collective, varying) << " of " << ranks << " ranks";
            EXPECT_EQ(choice.algorithm->order == Order::Canonical || ranks <= 2, true);
            EXPECT_TRUE(!varying || (choice.algorithm->traits & kVarying) != 0) << choice.algorithm->name;
            EXPECT_GT(choice.tile_bytes, 0u);
            EXPECT_LE(choice.tile_bytes, kSlotBytes);
          }
        }
      }
    }
  }
}

// The size grows: once a row was left for another, larger calls do not come back to it.
TEST(Tuner, RulesRiseWithSize) {
  for (const Collective collective : collectives()) {
    for (const int ranks : {2, 8}) {
      for (const bool mapped : {false, true}) {
        std::vector<const Algorithm*> used;
        for (std::size_t bytes = 1; bytes < std::size_t{1} << 40; bytes *= 2) {
          const Algorithm* row = choose(context(ranks, mapped), query(collective, bytes)).algorithm;
          if (!used.empty() && used.back() == row) continue;
          EXPECT_EQ(std::count(used.begin(), used.end(), row), 0) << name(collective) << " comes back to " << row->name;
          used.push_back(row);
        }
      }
    }
  }
}

// For any number of ranks, large sums send little over 2 S, and small ones wait for few messages. Once a rule named
// rows that do not serve from 258 ranks on. Sums then got the first row of the registry that serves, which sends 9 S at
// 512.
TEST(Tuner, SumsOfManyRanksAreNeitherLongNorLarge) {
  std::vector<int> numbers;
  for (int n = 3; n <= 300; ++n) numbers.push_back(n);
  for (int n = 512; n <= 65'536; n *= 2) numbers.insert(numbers.end(), {n - 1, n, n + 1});
  for (const int n : numbers) {
    for (const bool reproducible : {false, true}) {
      TunerContext of = context(n, false);
      of.reproducible = reproducible;
      const Problem problem{Collective::AllReduce, n, 0};
      const Choice large = choose(of, query(Collective::AllReduce, std::size_t{64} << 20));
      EXPECT_LE(large.algorithm->cost(problem).bytes, 3.0) << large.algorithm->name << " of " << n;
      const Choice small = choose(of, query(Collective::AllReduce, 8));
      EXPECT_LE(small.algorithm->cost(problem).steps, 20) << small.algorithm->name << " of " << n;
    }
  }
}

// Each rank sends log2(n) messages instead of n - 1. Over wires each message costs a turn of a core that others wait
// for.
TEST(Tuner, CrowdedWiresGetFewMessages) {
  for (const int ranks : {2, 3, 4, 16}) {
    for (const bool mapped : {false, true}) {
      TunerContext crowded = context(ranks, mapped);
      crowded.crowded = true;
      const Choice choice = choose(crowded, query(Collective::AllReduce, 4096));
      EXPECT_EQ(choice.algorithm->name == std::string_view("recursive_doubling"), ranks > 2 && !mapped) << ranks;
      EXPECT_EQ(choose(crowded, query(Collective::AllReduce, 1 << 20)).algorithm->name, std::string_view("two_shot"));
    }
  }
}

TEST(Tuner, NamedRowsServeTheCollectivesThatHaveThem) {
  TunerContext ring = context(5, true);
  ring.algorithm = "ring";
  EXPECT_TRUE(check_tuning(ring));
  EXPECT_EQ(choose(ring, query(Collective::AllReduce, 100)).algorithm->name, "ring");
  EXPECT_EQ(choose(ring, query(Collective::AllGather, 100)).algorithm->name, "ring");
  EXPECT_EQ(choose(ring, query(Collective::Reduce, 100)).algorithm->name, "direct");
  EXPECT_FALSE(choose(ring, query(Collective::AllReduce, 100)).small);
}

TEST(Tuner, NamesThatServeNothingAreRefused) {
  TunerContext odd = context(5, true);
  odd.algorithm = "no_such_row";
  const Status refused = check_tuning(odd);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_NE(refused.error().message.find("two_shot"), std::string::npos) << refused.error().message;
}

TEST(Tuner, TwoRanksOverAWireHaveThePathOfSmallMessages) {
  TunerContext wire = context(2, false);
  EXPECT_TRUE(choose(wire, query(Collective::AllReduce, kPairMessageBytes)).small);
  EXPECT_FALSE(choose(wire, query(Collective::AllReduce, kPairMessageBytes + 1)).small) << "two_shot";
  EXPECT_TRUE(choose(wire, query(Collective::Broadcast, kPairMessageBytes)).small);
  EXPECT_FALSE(choose(wire, query(Collective::Broadcast, kPairMessageBytes + 1)).small);
  EXPECT_TRUE(choose(wire, query(Collective::AllGather, 2 * kPairMessageBytes)).small) << "two messages";
  EXPECT_TRUE(choose(wire, query(Collective::Barrier, 1)).small);
  wire.slot_bytes = 4096;
  EXPECT_TRUE(choose(wire, query(Collective::Broadcast, 4096)).small);
  EXPECT_FALSE(choose(wire, query(Collective::Broadcast, 4097)).small) << "a message needs a slot";
  wire.gpus = true;
  EXPECT_FALSE(choose(wire, query(Collective::Broadcast, 8)).small) << "blocks of GPUs run lanes";
}

TEST(Tuner, SmallMessagesHaveTheirPathWhereItIsRight) {
  EXPECT_TRUE(choose(context(4, true), query(Collective::AllReduce, 8)).small);
  EXPECT_TRUE(choose(context(4, true), query(Collective::AllReduce, kSmallMessageBytes)).small);
  EXPECT_FALSE(choose(context(4, true), query(Collective::AllReduce, kSmallMessageBytes + 1)).small);
  EXPECT_FALSE(choose(context(2, true), query(Collective::AllReduce, kSmallMessageBytes + 1)).small);
  TunerContext wide = context(2, true);
  wide.small = {kPairMessageBytes, kPairMessageBytes};
  EXPECT_TRUE(choose(wide, query(Collective::AllReduce, kPairMessageBytes)).small);
  EXPECT_TRUE(choose(wide, query(Collective::Broadcast, kPairMessageBytes)).small);
  EXPECT_FALSE(choose(wide, query(Collective::Broadcast, kPairMessageBytes + 1)).small);
  EXPECT_TRUE(choose(context(4, true), query(Collective::Barrier, 1)).small);
  EXPECT_FALSE(choose(context(4, false), query(Collective::AllReduce, 8)).small) << "over a wire there are two ranks";
  // Each rank of these collectives sends one block only.
  for (const Collective collective : {Collective::AllGather, Collective::Gather}) {
    EXPECT_TRUE(choose(context(4, true), query(collective, 4 * kSmallBlockBytes)).small) << name(collective);
    EXPECT_FALSE(choose(context(4, true), query(collective, 4 * kSmallBlockBytes + 4)).small) << name(collective);
  }
  for (const Collective collective : {Collective::ReduceScatter, Collective::Broadcast, Collective::Reduce,
                                      Collective::AllToAll, Collective::Scatter}) {
    EXPECT_TRUE(choose(context(4, true), query(collective, kSmallBlockBytes)).small) << name(collective);
    EXPECT_FALSE(choose(context(4, true), query(collective, kSmallBlockBytes + 4)).small) << name(collective);
    EXPECT_FALSE(choose(context(4, true), query(collective, 8, true)).small) << name(collective);
    EXPECT_FALSE(choose(context(4, true), query(collective, kUnknownBytes)).small) << name(collective);
  }
  Query multiplied = query(Collective::AllReduce, 8);
  multiplied.premultiplied = true;
  EXPECT_FALSE(choose(context(4, true), multiplied).small);
}

TEST(Tuner, TilesFitAPingPongSlotWhereSlotsGain) {
  TunerContext slots = context(2, true);
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  slots.ping_pong = PairSizes{2 * kMiB, 8 * kMiB};
  slots.single_copy = true;
  const auto tile = [&](Collective collective, std::size_t bytes) {
    return choose(slots, query(collective, bytes)).tile_bytes;
  };
  EXPECT_EQ(tile(Collective::AllReduce, 16 * kMiB), PingPongSlots::kBytes);
  EXPECT_GT(tile(Collective::AllReduce, 16 * kMiB + 4), PingPongSlots::kBytes);
  EXPECT_EQ(tile(Collective::ReduceScatter, 64 * kMiB), PingPongSlots::kBytes);
  for (const Collective blocks : {Collective::AllGather, Collective::AllToAll}) {
    EXPECT_EQ(tile(blocks, kMiB / 2), PingPongSlots::kBytes);
    EXPECT_GT(tile(blocks, 2 * kMiB), PingPongSlots::kBytes) << "the kernel copies these";
    EXPECT_GT(tile(blocks, 8 * kMiB), PingPongSlots::kBytes);
    EXPECT_EQ(tile(blocks, 8 * kMiB + 4), PingPongSlots::kBytes) << "outputs go past the caches";
  }
  EXPECT_EQ(tile(Collective::AllGather, kMiB), PingPongSlots::kBytes);
  EXPECT_GT(tile(Collective::AllToAll, kMiB), PingPongSlots::kBytes);
  EXPECT_GT(tile(Collective::AllToAll, kUnknownBytes), PingPongSlots::kBytes);
  EXPECT_GT(tile(Collective::Broadcast, kMiB / 2), PingPongSlots::kBytes);
  slots.ping_pong = PairSizes{kMiB / 2, 2 * kMiB};
  EXPECT_GT(tile(Collective::AllReduce, 4 * kMiB + 4), PingPongSlots::kBytes) << "another machine's caches";
  EXPECT_GT(tile(Collective::AllGather, kMiB / 2), PingPongSlots::kBytes);
  EXPECT_EQ(tile(Collective::AllGather, 2 * kMiB + 4), PingPongSlots::kBytes);
  slots.single_copy = false;
  EXPECT_EQ(tile(Collective::AllGather, kMiB / 2), PingPongSlots::kBytes) << "the kernel copies nothing";
  EXPECT_EQ(tile(Collective::AllToAll, kUnknownBytes), PingPongSlots::kBytes);
  slots.ping_pong = {};
  EXPECT_GT(tile(Collective::AllReduce, 16 * kMiB), PingPongSlots::kBytes);
}

TEST(Tuner, SaysWhyThereIsNoRow) {
  const Error error = no_row(context(3, true), query(Collective::AllToAll, 8, true));
  EXPECT_EQ(error.code, ErrorCode::Unavailable);
  EXPECT_NE(error.message.find("all_to_all_v serves 3 ranks"), std::string::npos) << error.message;
  EXPECT_EQ(describe(Choice{}), "none");
}

// A block of a GPU runs a lane. Large calls have many lanes, and never more than there are FIFOs, with every row.
TEST(Tuner, GivesGpusLanesThatHaveFifos) {
  constexpr std::size_t kFifos = 15;
  std::set<std::string> names = {""};
  for (const Algorithm& row : algorithms()) names.emplace(row.name);
  for (const int ranks : {1, 2, 3, 8, 17}) {
    for (const std::string& name : names) {
      TunerContext gpus = context(ranks, ranks != 3);
      gpus.algorithm = name;
      gpus.gpus = true;
      for (const Collective collective : collectives()) {
        for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20, std::size_t{1} << 28, kUnknownBytes}) {
          const Choice choice = choose(gpus, {collective, bytes});
          if (choice.small) continue;
          EXPECT_EQ(choice.data_lanes > 1, bytes >= 1U << 20) << name << " of " << wreath::name(collective);
          const Schedule schedule = choice.algorithm->build({choice.algorithm->collective, ranks, 0}, 0);
          EXPECT_LE(lower(schedule, 0, choice.data_lanes).value().lanes.size(), kFifos) << choice.algorithm->name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace wreath
