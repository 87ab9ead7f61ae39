// verify() knows what each collective promises, and which forms data may have before it reaches the output.
#include "src/schedule/meaning.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/schedule/verify.hpp"
#include "tests/unit/schedule/words.hpp"

namespace wreath {
namespace {

using Build = void (*)(Schedule& schedule, Rank me);

std::vector<Lowered> programs(int ranks, std::uint32_t parts, Build build) {
  std::vector<Lowered> list;
  for (Rank rank = 0; rank < ranks; ++rank) {
    Schedule schedule(parts);
    build(schedule, rank);
    list.push_back(lower(schedule, rank, 1).value());
  }
  return list;
}

// Returns the message of verify(), or "proved" if it finds nothing.
std::string verdict(const std::vector<Lowered>& list, const Claim& claim, VerifyOptions options = {.count = 9}) {
  const Status status = verify(list, claim, options);
  return status ? "proved" : status.error().message;
}

struct Seeded {
  const char* name;
  Collective collective;
  int ranks;
  std::uint32_t parts;
  Build build;
  const char* message;
};

class Meanings : public testing::TestWithParam<Seeded> {};

TEST_P(Meanings, AreHeldTo) {
  const Seeded& seeded = GetParam();
  const Claim claim{{seeded.collective, seeded.ranks, 0}, Order::Canonical, 0};
  EXPECT_THAT(verdict(programs(seeded.ranks, seeded.parts, seeded.build), claim), testing::HasSubstr(seeded.message));
}

const Seeded kPlaces[] = {
    {"BroadcastProved", Collective::Broadcast, 2, 1,
     [](Schedule& s, Rank me) {
       if (me == 0) s.lane().send(1, input(0));
       if (me == 0) s.lane().copy(input(0), output(0));
       if (me == 1) s.lane().recv(0, output(0));
     },
     "proved"},
    {"BroadcastFromAnotherThanTheRoot", Collective::Broadcast, 2, 1,
     [](Schedule& s, Rank me) {
       if (me == 1) s.lane().send(0, input(0));
       if (me == 0) s.lane().recv(1, output(0));
     },
     "rank 1 lane 0 step 0 tile 0 (send): uses input part 0, which the rank does not have"},
    {"BroadcastThatForgetsTheRoot", Collective::Broadcast, 2, 1,
     [](Schedule& s, Rank me) {
       if (me == 0) s.lane().send(1, input(0));
       if (me == 1) s.lane().recv(0, output(0));
     },
     "rank 0 ends operation 0 with output part 0 undefined"},
    {"ReduceBesideTheRoot", Collective::Reduce, 2, 1,
     [](Schedule& s, Rank me) {
       s.lane().send(1 - me, input(0));
       s.lane().recv_reduce(1 - me, input(0), output(0));
     },
     "rank 1 lane 0 step 1 tile 0 (recv_reduce): uses output part 0, which the rank does not have"},
    {"AllGatherOfForeignInput", Collective::AllGather, 2, 2,
     [](Schedule& s, Rank) { s.lane().copy(input(1), output(1)); }, "with output part 0 undefined"},
    {"AllGatherOfSwappedBlocks", Collective::AllGather, 2, 2,
     [](Schedule& s, Rank me) {
       s.lane().send(1 - me, input(me));
       s.lane().copy(input(me), output(1 - me));
       s.lane().recv(1 - me, output(me));
     },
     "with output part 0 made of other elements"},
    {"AllToAllOfAnothersBlock", Collective::AllToAll, 2, 2,
     [](Schedule& s, Rank me) {
       s.lane().copy(input(me), output(me));
       s.lane().copy(input(me), output(1 - me));
     },
     "from another rank"},
    {"AllToAllOfTheWrongBlock", Collective::AllToAll, 2, 2,
     [](Schedule& s, Rank me) {
       s.lane().copy(input(me), output(me));
       s.lane().send(1 - me, input(me));
       s.lane().recv(1 - me, output(1 - me));
     },
     "with output part 1 made of other elements"},
    {"ScratchOfAnotherLane", Collective::AllGather, 1, 1,
     [](Schedule& s, Rank) {
       s.lane(0).copy(input(0), scratch(0));
       s.lane(1).copy(scratch(0), output(0));
     },
     "reads scratch slot 0 of rank 0 lane 1, which nothing was written to"},
    {"SlotOfAnotherPart", Collective::AllGather, 2, 2,
     [](Schedule& s, Rank me) {
       s.lane().copy(input(me), scratch(me));
       s.lane().copy(scratch(1 - me), output(1 - me));
     },
     "made of other elements"},
    {"MessageOfOtherChunks", Collective::AllToAll, 2, 2,
     [](Schedule& s, Rank me) {
       s.lane().send(1 - me, std::vector<Chunk>{input(0), input(1)});
       s.lane().recv(1 - me, output(1 - me));
       s.lane().recv(1 - me, scratch(me));
     },
     "takes a message of 2 chunks where it works on 1"},
};

const Seeded kForms[] = {
    {"SumsOfNothing", Collective::AllGather, 2, 2,
     [](Schedule& s, Rank me) {
       s.lane().send(1 - me, input(me));
       s.lane().recv_reduce(1 - me, input(me), output(me));
     },
     "adds, but the collective has no sums"},
    {"PartialWithoutSums", Collective::AllGather, 1, 1, [](Schedule& s, Rank) { s.lane().copy(input(0), partial(0)); },
     "uses Partial, but the collective has no sums"},
    {"PartialTakenAsData", Collective::AllReduce, 2, 1,
     [](Schedule& s, Rank me) {
       s.lane().copy(input(0), partial(0));
       s.lane().send(1 - me, partial(0));
       s.lane().recv_reduce(1 - me, input(0), output(0));
     },
     "takes a message of unfinished sums as data"},
    {"DataTakenAsPartial", Collective::AllReduce, 2, 1,
     [](Schedule& s, Rank me) {
       s.lane().send(1 - me, input(0));
       s.lane().recv_reduce(1 - me, input(0), output(0), kUnfinished);
     },
     "takes a message of data as unfinished sums"},
    {"InputReceivedAsItIs", Collective::AllReduce, 2, 1,
     [](Schedule& s, Rank me) {
       s.lane().send(1 - me, input(0));
       s.lane().recv(1 - me, output(0));
     },
     "receives an input as it is: only a reduction may take it"},
    {"ResultAddedAgain", Collective::AllReduce, 2, 1,
     [](Schedule& s, Rank me) {
       s.lane().send(1 - me, input(0));
       s.lane().recv_reduce(1 - me, input(0), output(0));
       s.lane().send(1 - me, output(0));
       s.lane().recv_reduce(1 - me, input(0), partial(0));
     },
     "a second time"},
    {"ResultTakenForASum", Collective::AllReduce, 1, 1,
     [](Schedule& s, Rank) {
       s.lane().copy(input(0), output(0));
       s.lane().copy(output(0), partial(0));
     },
     "takes a finished sum for an unfinished one"},
    {"SumFinishedTooEarly", Collective::AllReduce, 2, 1, [](Schedule& s, Rank) { s.lane().copy(input(0), output(0)); },
     "finishes a sum of 1 of 2 ranks"},
    {"InputInScratch", Collective::AllReduce, 1, 1,
     [](Schedule& s, Rank) {
       s.lane().copy(input(0), scratch(0));
       s.lane().copy(scratch(0), output(0));
     },
     "puts what is not finished into Scratch"},
};

std::string seeded_name(const testing::TestParamInfo<Seeded>& row) { return row.param.name; }
INSTANTIATE_TEST_SUITE_P(Places, Meanings, testing::ValuesIn(kPlaces), seeded_name);
INSTANTIATE_TEST_SUITE_P(Forms, Meanings, testing::ValuesIn(kForms), seeded_name);

TEST(Meaning, LetsABarrierCountARankTwiceAndNothingElse) {
  for (const int ranks : {3, 6, 130}) {
    const Algorithm& row = *find_algorithm(Collective::Barrier, "dissemination");
    const auto list = lower_all(row, {Collective::Barrier, ranks}, 1).value();
    EXPECT_EQ(verdict(list, {{Collective::Barrier, ranks}}), "proved");
    EXPECT_THAT(verdict(list, {{Collective::AllReduce, ranks}}),
                testing::AnyOf(testing::HasSubstr("a second time"), testing::HasSubstr("not the sum over all")));
  }
}

TEST(Meaning, MissesNoRankOfABarrierHoweverMany) {
  const auto forgetful = [](int ranks) {
    std::vector<Lowered> list;
    for (Rank me = 0; me < ranks; ++me) {
      // Each rank gets the data of 64 ranks, however many there are.
      Schedule schedule(1);
      Lane& lane = schedule.lane();
      lane.copy(input(0), partial(0));
      for (int distance = 1; distance < 64; distance *= 2) {
        lane.send((me + distance) % ranks, partial(0));
        lane.recv_reduce((me + ranks - distance) % ranks, partial(0), partial(0), kUnfinished);
      }
      lane.copy(partial(0), output(0));
      list.push_back(lower(schedule, me, 1).value());
    }
    return verdict(list, {{Collective::Barrier, ranks}}, {.count = 1});
  };
  EXPECT_EQ(forgetful(64), "proved");
  EXPECT_THAT(forgetful(65), testing::HasSubstr("finishes a sum of"));
  EXPECT_THAT(forgetful(130), testing::HasSubstr("finishes a sum of"));
}

TEST(Meaning, StagesWhatALaneSendsOfItsOwn) {
  const Algorithm& ring = *find_algorithm(Collective::AllReduce, "ring");
  auto list = lower_all(ring, {Collective::AllReduce, 4}, 1).value();
  for (Step& step : list[2].steps) step.flags = static_cast<std::uint8_t>(step.flags & ~kStaged);
  EXPECT_THAT(verdict(list, {{Collective::AllReduce, 4}, Order::Ring, ring.traits}),
              testing::HasSubstr("sends from partial without staging"));
}

TEST(Meaning, RefusesOptionsThatDoNotFit) {
  const Algorithm& ring = *find_algorithm(Collective::AllGather, "ring");
  const Problem problem{Collective::AllGather, 3};
  EXPECT_TRUE(verify(ring, problem, {.block_counts = {3, 0, 5}}));
  EXPECT_EQ(verify(ring, problem, {.block_counts = {3, 0}}).error().code, ErrorCode::InvalidArgument);
  const Algorithm& reduce = *find_algorithm(Collective::AllReduce, "ring");
  const Status vector = verify(reduce, {Collective::AllReduce, 3}, {.block_counts = {3, 0, 5}});
  EXPECT_THAT(vector.error().message, testing::HasSubstr("no blocks that vary"));
  const Algorithm& direct = *find_algorithm(Collective::AllToAll, "direct");
  const Status in_place = verify(direct, {Collective::AllToAll, 3}, {.count = 3, .in_place = true});
  EXPECT_THAT(in_place.error().message, testing::HasSubstr("no all_to_all is in place"));
  const Algorithm& broadcast = *find_algorithm(Collective::Broadcast, "binomial");
  EXPECT_FALSE(verify(broadcast, {Collective::Broadcast, 3, 3}, {.count = 3})) << "root 3 of 3";
}

TEST(Meaning, CatchesARowThatNeedsEqualBlocks) {
  // Each rank sends its block as if it were as large as the receiver's.
  const auto list = programs(2, 2, [](Schedule& schedule, Rank me) {
    schedule.lane().copy(input(me), output(me));
    schedule.lane().send(1 - me, input(1 - me));
    schedule.lane().recv(1 - me, output(1 - me));
  });
  const Claim claim{{Collective::AllToAll, 2}, Order::Canonical, kVarying};
  EXPECT_EQ(verdict(list, claim), "proved");
  EXPECT_EQ(verdict(list, claim, {.block_counts = {1, 9, 0, 4}}), "proved") << "both ends count alike";
  const auto swapped = programs(2, 2, [](Schedule& schedule, Rank me) {
    schedule.lane().copy(input(me), output(me));
    schedule.lane().send(1 - me, input(1 - me));
    schedule.lane().recv(1 - me, output(me));
  });
  EXPECT_NE(verdict(swapped, claim, {.block_counts = {1, 9, 0, 4}}), "proved");
}

TEST(Table, HasALineForEveryRow) {
  const std::string text = cost_table(TableStyle::Text);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), 1 + algorithms().size());
  EXPECT_THAT(text, testing::ContainsRegex("all_reduce +ring +ring +14 +1.75 +10 +1.67"));
  EXPECT_THAT(text, testing::ContainsRegex("all_gather +recursive_doubling +canonical +v +3 +0.875 +- +-"));
}

}  // namespace
}  // namespace wreath
