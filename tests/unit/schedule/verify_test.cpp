// verify() proves the registry and catches one seeded fault of every kind.
#include "src/schedule/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "src/schedule/values.hpp"
#include "tests/support/processes.hpp"
#include "tests/unit/schedule/interpreter.hpp"
#include "tests/unit/schedule/words.hpp"

namespace wreath::verifying {
namespace {

using Build = std::function<Schedule(int ranks, Rank me)>;

std::vector<Lowered> programs(int ranks, const Build& build, int data_lanes = 1) {
  std::vector<Lowered> list;
  for (Rank rank = 0; rank < ranks; ++rank) list.push_back(lower(build(ranks, rank), rank, data_lanes).value());
  return list;
}

// Returns the message of verify(), or "proved" if it finds nothing.
std::string verdict(const std::vector<Lowered>& list, const Claim& claim, const VerifyOptions& options) {
  const Status status = verify(list, claim, options);
  return status ? "proved" : status.error().message;
}
std::string verdict(const std::vector<Lowered>& list, Order order, const VerifyOptions& options) {
  return verdict(list, {{Collective::AllReduce, static_cast<int>(list.size())}, order}, options);
}

VerifyOptions of(std::uint64_t count) {
  VerifyOptions options;
  options.count = count;
  return options;
}

std::vector<Rank> others(int n, Rank me) {
  std::vector<Rank> list;
  for (Rank rank = 0; rank < n; ++rank) {
    if (rank != me) list.push_back(rank);
  }
  return list;
}

// One line of a ring all-reduce, which a test may edit.
struct RingLine {
  bool sends, reduces;
  Rank me, peer;
  int part;
};
// Returns a ring all-reduce. `edit` may change each line, and returns how often the schedule holds it; 0 drops it.
Schedule ring(int n, Rank me, const std::function<int(RingLine&)>& edit) {
  Schedule schedule(static_cast<std::uint32_t>(n));
  Lane& lane = schedule.lane();
  const auto behind = [&](int distance) { return (me + 2 * n - distance) % n; };
  // In round k a rank sends what it has by then: an input, an unfinished sum or a result.
  const auto held = [&](int k, int part) { return k == 1 ? input(part) : k < n ? partial(part) : output(part); };
  const auto say = [&](RingLine line, int k) {
    for (int times = edit(line); times > 0; --times) {
      if (line.sends) {
        lane.send(line.peer, held(k, line.part));
      } else if (line.reduces) {
        lane.recv_reduce(line.peer, input(line.part), held(k, line.part), k == 2 ? Incoming{} : kUnfinished);
      } else {
        lane.recv(line.peer, output(line.part), k <= n ? kUnfinished : Incoming{});
      }
    }
  };
  const Rank next = (me + 1) % n, previous = behind(1);
  for (int k = 1; k < 2 * n; ++k) {
    if (k > 1) say({false, k <= n, me, previous, behind(k)}, k);
    if (k < 2 * n - 1) say({true, false, me, next, behind(k)}, k);
  }
  return schedule;
}

TEST(Verify, ProvesTheRegistry) {
  for (const Algorithm& row : algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33}) {
      for (const Rank root : has_root(row.collective) ? std::set<Rank>{0, 1 % ranks, ranks - 1} : std::set<Rank>{0}) {
        const Problem problem{row.collective, ranks, root};
        if (!row.supports(problem)) continue;
        const Result<std::uint64_t> points = verify_all(row, problem);
        EXPECT_TRUE(points) << (points ? "" : points.error().message);
        EXPECT_GE(points ? *points : 0, 50u);
      }
    }
  }
}

// Rows that are for powers of two alone are proved for 128 ranks, the others for 101; in a long run for both.
TEST(Verify, ProvesManyRanksByFingerprints) {
  for (const Algorithm& row : algorithms()) {
    bool proved = false;
    for (const int ranks : {101, 128}) {
      const Problem problem{row.collective, ranks, has_root(row.collective) ? 77 : 0};
      if (!row.supports(problem) || (proved && !testing_support::takes_every_case())) continue;
      proved = true;
      const Status status = verify(row, problem, of(moves_blocks(row.collective) ? 7 : 1000));
      EXPECT_TRUE(status) << name(row.collective) << " " << row.name << ": " << status.error().message;
    }
  }
}

TEST(Verify, NoticesMissingContributionsOfManyRanks) {
  const auto list = programs(67, [](int n, Rank me) {
    Schedule schedule(1);
    Lane& lane = schedule.lane();
    lane.send((me + 1) % n, input(0));
    lane.recv_reduce((me + n - 1) % n, input(0), output(0));
    return schedule;
  });
  EXPECT_THAT(verdict(list, Order::Ring, of(3)), testing::HasSubstr("finishes what is not the sum over all ranks"));
}

struct Seeded {
  const char* name;
  int (*edit)(RingLine& line);
  const char* message;
};

class SeededFaults : public testing::TestWithParam<Seeded> {};

TEST_P(SeededFaults, AreCaughtInARing) {
  const auto list = programs(5, [](int n, Rank me) { return ring(n, me, GetParam().edit); });
  const std::string message = verdict(list, Order::Ring, of(37));
  EXPECT_EQ(message == "proved", GetParam().name == std::string("None"));
  EXPECT_THAT(message, testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Verify, SeededFaults,
    testing::Values(Seeded{"None", [](RingLine&) { return 1; }, "proved"},
                    Seeded{"WrongChunk",
                           [](RingLine& line) {
                             if (line.me == 2 && line.reduces && line.part == 0) line.part = 4;
                             return 1;
                           },
                           "rank 2 lane 0"},
                    Seeded{"MissingRound", [](RingLine& line) { return line.part == line.me ? 0 : 1; }, ""},
                    Seeded{"MissingSend",
                           [](RingLine& line) { return line.sends && line.me == 1 && line.part == 3 ? 0 : 1; },
                           "do not belong together"},
                    Seeded{"WrongPeer",
                           [](RingLine& line) {
                             if (line.me == 0 && line.sends && line.part == 2) line.peer = 3;
                             return 1;
                           },
                           "do not belong together"},
                    Seeded{"DoubleCount",
                           [](RingLine& line) { return line.reduces && line.me == 3 && line.part == 1 ? 2 : 1; }, ""},
                    Seeded{"NoReduction",
                           [](RingLine& line) {
                             if (line.me == 4 && line.part == 1) line.reduces = false;
                             return 1;
                           },
                           "finishes a sum of 2 of 5 ranks"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Verify, NamesAContributionCountedTwice) {
  const auto list = programs(2, [](int, Rank me) {
    Schedule schedule(1);
    Lane& lane = schedule.lane();
    lane.send(1 - me, input(0));
    lane.recv_reduce(1 - me, input(0), partial(0));
    lane.reduce(input(0), partial(0));
    lane.copy(partial(0), output(0));
    return schedule;
  });
  EXPECT_THAT(verdict(list, Order::Ring, of(3)),
              testing::HasSubstr("rank 0 lane 0 step 2 tile 0 (reduce): adds a rank's contribution a second time"));
}

TEST(Verify, NamesUninitialisedReads) {
  const auto list = programs(2, [](int, Rank me) {
    Schedule schedule(1);
    schedule.lane().send(1 - me, output(0));
    schedule.lane().recv_reduce(1 - me, input(0), output(0));
    return schedule;
  });
  EXPECT_THAT(verdict(list, Order::Ring, of(1)),
              testing::HasSubstr("reads output part 0 of rank 1, which nothing was written to"));
}

TEST(Verify, NamesMessagesOfDifferentSizes) {
  const auto list = programs(2, [](int, Rank me) {
    Schedule schedule(2);
    // Rank 1 awaits part 1 of 1 element, but gets part 0 of 2 elements.
    schedule.lane().send(1 - me, input(me));
    schedule.lane().recv(1 - me, output(me));
    return schedule;
  });
  EXPECT_THAT(verdict(list, Order::Ring, of(3)), testing::HasSubstr("takes a message of"));
}

// Returns one-shot with its two halves in one lane or in two, and with messages staged or by reference.
Build one_shot(bool staged, int reduce_lane) {
  return [=](int n, Rank me) {
    Schedule schedule(1);
    Lane& lane = schedule.lane(0);
    if (staged) lane.send_all_staged(others(n, me), input(0));
    if (!staged) lane.send_all(others(n, me), input(0));
    schedule.lane(reduce_lane).load_reduce(others(n, me), input(0), output(0), {.lane = 0});
    return schedule;
  };
}

TEST(Verify, CatchesOneShotByReferenceInPlace) {
  VerifyOptions options = of(5);
  EXPECT_EQ(verdict(programs(4, one_shot(true, 0)), Order::Canonical, options), "proved");
  EXPECT_EQ(verdict(programs(4, one_shot(false, 0)), Order::Canonical, options), "proved")
      << "out of place it is right";
  options.in_place = true;
  EXPECT_EQ(verdict(programs(4, one_shot(true, 0)), Order::Canonical, options), "proved");
  EXPECT_THAT(
      verdict(programs(4, one_shot(false, 0)), Order::Canonical, options),
      testing::AnyOf(testing::HasSubstr("may still be reading"), testing::HasSubstr("overwrote what it had sent")));
}

TEST(Verify, CatchesAnUnorderedLaneThatOverwritesWhatAnotherSends) {
  VerifyOptions options = of(5);
  EXPECT_EQ(verdict(programs(4, one_shot(true, 1)), Order::Canonical, options), "proved");
  options.in_place = true;
  EXPECT_THAT(verdict(programs(4, one_shot(true, 1)), Order::Canonical, options), testing::HasSubstr("nothing orders"));
}

TEST(Verify, AgreesWithRandomRunsOnThoseHazards) {
  std::mt19937_64 random(3);
  const InterpreterOptions options{
      .problem = {Collective::AllReduce, 4}, .count = 100, .tile_bytes = 64, .slots = 1, .in_place = true};
  for (const auto& build : {one_shot(false, 0), one_shot(true, 1)}) {
    const std::vector<Lowered> list = programs(4, build);
    int wrong = 0;
    for (int i = 0; i < 300; ++i) {
      wrong += interpret(list, options, random).empty() ? 0 : 1;
    }
    EXPECT_GT(wrong, 0);
  }
}

TEST(Verify, CatchesADeadlockThatMoreSlotsHide) {
  // Each rank sends two messages before it takes one.
  const auto list = programs(2, [](int, Rank me) {
    Schedule schedule(2);
    Lane& lane = schedule.lane();
    for (const int part : {0, 1}) lane.send(1 - me, input(part));
    for (const int part : {0, 1}) lane.recv_reduce(1 - me, input(part), output(part));
    return schedule;
  });
  VerifyOptions options = of(4);
  options.slots = 2;
  EXPECT_EQ(verdict(list, Order::Canonical, options), "proved");
  options.slots = 1;
  const std::string message = verdict(list, Order::Canonical, options);
  EXPECT_THAT(message,
              testing::HasSubstr("deadlock: rank 0 lane 0 step 1 tile 0 (send) waits for a free slot to rank 1"));
  EXPECT_THAT(message, testing::HasSubstr("rank 1 lane 0 step 1 tile 0 (send) waits for a free slot to rank 0"));
}

TEST(Verify, CatchesTooFewResidentLanes) {
  const Algorithm& two_shot = *find_algorithm(Collective::AllReduce, "two_shot");
  VerifyOptions options = of(4 * 20);
  options.slots = 1;
  for (const std::uint32_t resident : {1u, 2u, 3u}) {
    options.resident = resident;
    const Status status = verify(two_shot, {Collective::AllReduce, 4}, options);
    const bool enough = resident >= static_cast<std::uint32_t>(two_shot.minimum_resident_lanes);
    EXPECT_EQ(static_cast<bool>(status), enough) << resident;
    EXPECT_THAT(status.error().message, testing::HasSubstr(enough ? "" : "waits for its turn to be resident"));
  }
}

TEST(Verify, CatchesASumInAnotherOrder) {
  const Algorithm& ring_row = *find_algorithm(Collective::AllReduce, "ring");
  const auto list = lower_all(ring_row, {Collective::AllReduce, 4}, 1).value();
  EXPECT_EQ(verdict(list, Order::Ring, of(9)), "proved");
  EXPECT_THAT(verdict(list, Order::Canonical, of(9)), testing::HasSubstr("another order than the canonical one"));
}

TEST(Verify, CatchesLeftoverMessages) {
  const auto list = programs(2, [](int, Rank me) {
    Schedule schedule(1);
    Lane& lane = schedule.lane();
    lane.send(1 - me, input(0));
    lane.recv_reduce(1 - me, input(0), output(0));
    if (me == 0) lane.send(1, output(0));
    return schedule;
  });
  VerifyOptions options = of(2);
  options.operations = 1;
  EXPECT_THAT(verdict(list, Order::Canonical, options),
              testing::HasSubstr("messages nobody took: 1 from rank 0 lane 0 to rank 1"));
}

TEST(Verify, CatchesReadsOfDeadTargets) {
  const Algorithm& two_shot = *find_algorithm(Collective::AllReduce, "two_shot");
  auto list = lower_all(two_shot, {Collective::AllReduce, 3}, 1).value();
  for (Step& step : list[1].steps) {
    if (step.op == StepOp::LoadReduceSend) step.flags |= kTargetDead;
  }
  EXPECT_THAT(verdict(list, Order::Canonical, of(9)),
              testing::HasSubstr("rank 1 ends operation 0 with output part 1 undefined"));
}

// In place the ring's last messages would land in inputs that are still to be sent.
TEST(Verify, CatchesLandingsInPlacesThatAreStillUsed) {
  const Algorithm& row = *find_algorithm(Collective::AllReduce, "ring");
  std::vector<Lowered> list = lower_all(row, {Collective::AllReduce, 3}, 1).value();
  int marked = 0;
  for (Lowered& program : list) {
    for (Step& step : program.steps) {
      const bool receives = first_part(step.op) == StepOp::Recv && step.target_buffer == Buffer::Output;
      if (receives) step.flags |= kLands;
      marked += receives ? 1 : 0;
    }
  }
  EXPECT_GT(marked, 0);
  VerifyOptions options = of(9);
  EXPECT_EQ(verdict(list, row.order, options), "proved") << "out of place nothing is in the way";
  options.in_place = true;
  EXPECT_THAT(verdict(list, row.order, options),
              testing::HasSubstr("takes a message that may have landed in buffer part"));
}

TEST(Verify, CatchesLandingsThatAreWritten) {
  const Algorithm& row = *find_algorithm(Collective::Broadcast, "direct");
  std::vector<Lowered> list = lower_all(row, {Collective::Broadcast, 2}, 1).value();
  LoweredLane& lane = list[1].lanes.back();
  ASSERT_EQ(lane.first_step + lane.step_count, list[1].steps.size());
  const Step receive = list[1].steps[lane.first_step];
  ASSERT_NE(receive.flags & kLands, 0);
  for (Lowered& program : list) {
    // Both ranks do it twice: the second message may land before the first one is taken.
    program.steps.push_back(program.steps[program.lanes.back().first_step + program.lanes.back().step_count - 1]);
    ++program.lanes.back().step_count;
  }
  EXPECT_THAT(verdict(list, {{Collective::Broadcast, 2}, row.order, row.traits}, of(9)),
              testing::HasSubstr("takes a message that may have landed in output part 0 of rank 1"));
}

TEST(Verify, RefusesLandingsOfOtherSteps) {
  const Algorithm& row = *find_algorithm(Collective::AllReduce, "ring");
  std::vector<Lowered> list = lower_all(row, {Collective::AllReduce, 2}, 1).value();
  list[0].steps[0].flags |= kLands;
  EXPECT_THAT(verdict(list, row.order, of(9)),
              testing::HasSubstr("lands, and receives no data for one place of Output"));
}

TEST(Verify, RefusesWhatNoExecutorMayBeGiven) {
  const Algorithm& row = *find_algorithm(Collective::AllReduce, "two_shot");
  const auto good = lower_all(row, {Collective::AllReduce, 3}, 1).value();
  const auto broken = [&](auto&& edit) {
    auto list = good;
    edit(list);
    return verdict(list, Order::Canonical, of(9));
  };
  EXPECT_THAT(broken([](auto& l) { l[1].targets[0].peer = 3; }), testing::HasSubstr("peer 3 of 3 ranks"));
  EXPECT_THAT(broken([](auto& l) { l[1].targets[0].peer = 1; }), testing::HasSubstr("itself"));
  EXPECT_THAT(broken([](auto& l) { l[1].targets[0].lane = 2; }), testing::HasSubstr("sends on lane 2, not its own"));
  EXPECT_THAT(broken([](auto& l) { l[2].steps[0].source_part = 3; }), testing::HasSubstr("source part 3 of 3"));
  EXPECT_THAT(broken([](auto& l) { l[2].steps[0].out_first = 65535; }), testing::HasSubstr("beyond the table"));
  EXPECT_THAT(broken([](auto& l) { l[2].steps[0].op = static_cast<StepOp>(77); }),
              testing::HasSubstr("unknown operation"));
  EXPECT_THAT(broken([](auto& l) { l[2].lanes.pop_back(); }), testing::HasSubstr("rank 2 has 3 parts and 2 lanes"));
  EXPECT_FALSE(verify(std::span<const Lowered>{}, Claim{{Collective::AllReduce, 1}}, of(1)));
  EXPECT_FALSE(verify(good, Claim{{Collective::AllReduce, 4}}, of(1))) << "three programs";
  EXPECT_FALSE(verify(row, {Collective::AllReduce, 0}, of(1)));
}

TEST(Verify, NamesTheProblemOfALineThatCannotBe) {
  Algorithm row = *find_algorithm(Collective::Broadcast, "binomial");
  row.build = [](const Problem&, Rank me) {
    Schedule schedule(1);
    schedule.lane().send(me, output(0));
    return schedule;
  };
  const std::string fault =
      "binomial broadcast on 4 ranks, root 1: rank 0: schedule lane 0 line 0: exchanges a message with itself";
  EXPECT_EQ(verify(row, {Collective::Broadcast, 4, 1}, of(9)).error().message, fault);
  EXPECT_EQ(verify_all(row, {Collective::Broadcast, 4, 1}).error().message, fault);
}

TEST(Verify, RefusesMoreTilesThanItCanHold) {
  VerifyOptions options = of(std::uint64_t{1} << 40);
  options.tile_bytes = 1;
  const Status status = verify(*find_algorithm(Collective::AllReduce, "ring"), {Collective::AllReduce, 4}, options);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::InvalidArgument);
}

TEST(CanonicalFold, PairsNeighboursAndFoldsTheRestFirst) {
  const auto tree = [](int n) {
    std::vector<std::string> leaves;
    for (int i = 0; i < n; ++i) leaves.push_back(std::to_string(i));
    return canonical_fold(std::span(leaves),
                          [](const std::string& a, const std::string& b) { return "(" + a + b + ")"; });
  };
  EXPECT_EQ(tree(1), "0");
  EXPECT_EQ(tree(2), "(01)");
  EXPECT_EQ(tree(3), "((01)2)");
  EXPECT_EQ(tree(4), "((01)(23))");
  EXPECT_EQ(tree(6), "(((01)(23))(45))");
  EXPECT_EQ(tree(7), "(((01)(23))((45)6))");
  EXPECT_EQ(tree(8), "(((01)(23))((45)(67)))");
}

}  // namespace
}  // namespace wreath::verifying
