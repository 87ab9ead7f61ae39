// Schedules are data: the tests read their text and their proof, compare idle shares with the papers, and show what the
// proof catches.
#include "training/pipeline/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/training/pipeline/parse_schedule.hpp"

namespace wreath::training::verifying {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PipelineSchedule schedule_of(std::string_view name, int ranks, int chunks, int micro_batches) {
  return make_schedule(name, {ranks, chunks, micro_batches}).value();
}

std::string error_of(const PipelineSchedule& schedule) {
  const Result<ScheduleProof> proof = verify(schedule);
  return proof ? "none" : proof.error().message;
}

PipelineSchedule parsed(std::string_view text) { return parse_schedule(text).value(); }

// Calls visit(name, ranks, chunks, micro_batches) for all schedules of a grid.
template <typename Visit>
void for_each_schedule(int most_ranks, int most_micro_batches, Visit visit) {
  for (const ScheduleBuilder& builder : schedule_builders()) {
    const bool chunked = builder.name == "interleaved";
    for (int ranks = 1; ranks <= most_ranks; ++ranks) {
      for (int chunks = chunked ? 2 : 1; chunks <= (chunked ? 4 : 1); ++chunks) {
        for (int micro_batches = 1; micro_batches <= most_micro_batches; ++micro_batches) {
          visit(builder.name, ranks, chunks, micro_batches);
        }
      }
    }
  }
}

TEST(ScheduleText, IsTheKnownOne) {
  EXPECT_EQ(to_text(schedule_of("1f1b", 2, 1, 3)),
            "pipeline 1f1b ranks 2 chunks 1 micro_batches 3\n0: F0 F1 B0 F2 B1 B2\n1: F0 B0 F1 B1 F2 B2\n");
  EXPECT_EQ(to_text(schedule_of("gpipe", 2, 1, 2)),
            "pipeline gpipe ranks 2 chunks 1 micro_batches 2\n0: F0 F1 B0 B1\n1: F0 F1 B0 B1\n");
  EXPECT_EQ(to_text(schedule_of("zb_h1", 2, 1, 3)),
            "pipeline zb_h1 ranks 2 chunks 1 micro_batches 3\n0: F0 F1 I0 W0 F2 I1 W1 I2 W2\n"
            "1: F0 I0 F1 I1 W0 F2 I2 W1 W2\n");
  EXPECT_EQ(to_text(schedule_of("interleaved", 2, 2, 2)),
            "pipeline interleaved ranks 2 chunks 2 micro_batches 2\n0: F0 F1 1F0 1F1 1B0 1B1 B0 B1\n"
            "1: F0 F1 1F0 1B0 1F1 1B1 B0 B1\n");
}

TEST(ScheduleText, RoundTrips) {
  for_each_schedule(5, 7, [](std::string_view name, int ranks, int chunks, int micro_batches) {
    const PipelineSchedule schedule = schedule_of(name, ranks, chunks, micro_batches);
    EXPECT_EQ(parsed(to_text(schedule)), schedule);
  });
}

TEST(ScheduleText, NamesWhatItCannotRead) {
  const auto error = [](std::string_view text) { return parse_schedule(text).error().message; };
  const std::string head = "pipeline a ranks 1 chunks 1 micro_batches 1\n";
  EXPECT_THAT(error(""), HasSubstr("line 1"));
  EXPECT_THAT(error("pipeline a ranks 1 chunks 1"), HasSubstr("'pipeline NAME ranks P chunks V micro_batches M'"));
  EXPECT_THAT(error("pipeline a ranks -1 chunks 1 micro_batches 1"), HasSubstr("line 1"));
  EXPECT_THAT(error("pipeline a ranks 0 chunks 1 micro_batches 1"), HasSubstr("each is at least 1"));
  EXPECT_THAT(error("pipeline a ranks 99999 chunks 99999 micro_batches 99999"), HasSubstr("at most 16777216"));
  EXPECT_THAT(error(head + "1: F0"), HasSubstr("line 2: '1: F0' is not the actions of rank 0"));
  for (const char* word : {"X0", "F", "0F", "F0x", "-1F0", "F-1", "F99999999999"}) {
    EXPECT_THAT(error(head + "0: F0 " + word), HasSubstr("line 2: '" + std::string(word) + "' is not an action"));
  }
}

TEST(MakeSchedule, NamesAWrongShape) {
  const auto error = [](std::string_view name, int ranks, int chunks, int micro_batches) {
    return make_schedule(name, {ranks, chunks, micro_batches}).error().message;
  };
  EXPECT_THAT(error("2f2b", 1, 1, 1), HasSubstr("'2f2b' is none of gpipe, 1f1b, interleaved, zb_h1"));
  EXPECT_THAT(error("1f1b", 2, 2, 1), HasSubstr("1f1b has 1 chunk per rank, not 2"));
  EXPECT_THAT(error("interleaved", 2, 1, 1), HasSubstr("at least 2 chunks"));
  EXPECT_THAT(error("gpipe", 0, 1, 1), HasSubstr("0 ranks"));
  EXPECT_THAT(error("gpipe", 1, 1, 0), HasSubstr("0 micro-batches"));
}

// All schedules are proved, also with few micro-batches and numbers that do not divide.
TEST(Verify, ProvesEveryScheduleAndItsMemory) {
  for_each_schedule(7, 17, [](std::string_view name, int p, int v, int m) {
    const Result<ScheduleProof> proof = verify(schedule_of(name, p, v, m));
    ASSERT_TRUE(proof) << proof.error().message;
    for (int rank = 0; rank < p; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      const int warm_up = 2 * (p - rank - 1) + (v - 1) * p;
      const int one_by_one = name == "interleaved" ? std::min(m * v, warm_up + 1) : std::min(m, p - rank);
      const int most = name == "gpipe" ? m : name == "zb_h1" ? std::min(m, p) : one_by_one;
      if (name == "interleaved" && m % p != 0) {
        EXPECT_LE(proof->in_flight[i], most);
        continue;
      }
      EXPECT_EQ(proof->in_flight[i], most) << name << " p" << p << " v" << v << " m" << m << " rank " << rank;
      EXPECT_EQ(proof->in_flight_inputs[i], name == "gpipe" ? m : one_by_one);
    }
  });
}

TEST(Simulate, IdleSharesAreThoseOfThePapers) {
  const ScheduleCosts costs{1, 1, 1, 0};  // B = 2 in two parts
  for_each_schedule(7, 17, [&](std::string_view name, int p, int v, int m) {
    const SimulatedPipeline simulated = simulate(schedule_of(name, p, v, m), costs).value();
    double bubble = p - 1.0;
    double work = m;
    if (name == "interleaved") {
      if (m % p != 0) return;
      work *= v;
    } else if (name == "zb_h1") {
      if (m < p) return;
      work *= 3;
    }
    const double share = bubble / (work + bubble);
    EXPECT_NEAR(simulated.idle_share, share, 1e-12) << name << " p" << p << " v" << v << " m" << m;
    for (const double idle : simulated.idle_shares) EXPECT_NEAR(idle, share, 1e-12);
  });
}

// The bubble of zb_h1 is (p - 1)(F + B - W), that of 1f1b is (p - 1)(F + B + W). Here the parts also differ a little.
TEST(Simulate, ZeroBubbleIsShorter) {
  for (const ScheduleCosts& costs : {ScheduleCosts{10, 10, 10, 0}, ScheduleCosts{10, 11, 9, 0}, {10, 12, 8, 1}}) {
    const std::int64_t zb_h1 = simulate(schedule_of("zb_h1", 4, 1, 8), costs).value().makespan;
    const std::int64_t one_by_one = simulate(schedule_of("1f1b", 4, 1, 8), costs).value().makespan;
    EXPECT_LT(zb_h1, one_by_one);
  }
  EXPECT_EQ(simulate(schedule_of("zb_h1", 4, 1, 8), {10, 10, 10, 0}).value().makespan, 8 * 30 + 3 * 10);
  EXPECT_EQ(simulate(schedule_of("1f1b", 4, 1, 8), {10, 10, 10, 0}).value().makespan, 8 * 30 + 3 * 30);
}

TEST(Simulate, MessagesTakeTime) {
  const SimulatedPipeline simulated = simulate(schedule_of("gpipe", 2, 1, 1), {3, 2, 2, 5}).value();
  ASSERT_EQ(simulated.makespan, 3 + 5 + 3 + 4 + 5 + 4);
  const TimedAction last{{ActionKind::Backward, 0, 0}, 20, 24};
  EXPECT_EQ(simulated.timelines[0].back(), last);
  EXPECT_EQ(simulate(schedule_of("gpipe", 2, 1, 1), {-1, 0, 0, 0}).error().code, ErrorCode::InvalidArgument);
}

// Returns a schedule in which rank 0 runs `ahead` forwards while rank 1 is busy with its first backward pass. If rank 1
// `waits`, it needs the gradient that rank 0 gives it after these forwards.
PipelineSchedule running_ahead(int ahead, bool waits) {
  const auto all = [&](const char* letters, int first) {
    std::string words;
    for (int i = first; i <= ahead; ++i) words += letters + std::to_string(i) + " ";
    return words;
  };
  const std::string early = waits ? "B0 " : "";
  const std::string rest = all("1F", 1) + all("1B", 1) + all("B", waits ? 1 : 0);
  return parsed("pipeline a ranks 2 chunks 2 micro_batches " + std::to_string(ahead + 1) + "\n0: F0 1F0 " +
                all("F", 1) + "1B0 " + early + rest + "\n1: F0 1F0 1B0 " + early + all("F", 1) + rest + "\n");
}

TEST(Simulate, AFullQueueMakesTheSenderWait) {
  const SimulatedPipeline simulated = simulate(running_ahead(200, false), {1, 600, 400, 0}).value();
  const Timeline& timeline = simulated.timelines[0];
  EXPECT_EQ(timeline[1 + kQueuedMessages].start_ns, 2 + static_cast<std::int64_t>(kQueuedMessages));
  EXPECT_EQ(timeline[2 + kQueuedMessages].action,
            (Action{ActionKind::Forward, 0, 1 + static_cast<int>(kQueuedMessages)}));
  EXPECT_EQ(timeline[2 + kQueuedMessages].start_ns, 1004);
}

TEST(Verify, AQueueThatFillsUpDeadlocks) {
  const int most = static_cast<int>(kQueuedMessages);
  EXPECT_EQ(error_of(running_ahead(most, true)), "none");
  EXPECT_EQ(error_of(running_ahead(most + 1, false)), "none");
  EXPECT_THAT(error_of(running_ahead(most + 1, true)),
              HasSubstr("deadlocks: rank 0, action 130 (F129), waits for rank 1 to take one of 128 messages; rank 1, "
                        "action 3 (B0), waits for a gradient of rank 0"));
}

TEST(Verify, SaysWhichRankActionAndWhy) {
  const std::string head = "pipeline a ranks 2 chunks 1 micro_batches 2\n";
  const auto error = [&](std::string_view ranks) { return error_of(parsed(head + std::string(ranks))); };
  EXPECT_EQ(error("0: F0 F1 B0 B1\n1: F0 F1 B0 B1\n"), "none");
  EXPECT_THAT(error("0: F0 F1 B0 B1\n1: F0 F0 B0 B1\n"), HasSubstr("a: rank 1, action 1 (F0): it has run before"));
  EXPECT_THAT(error("0: F0 B1 B0 F1\n1: F0 F1 B0 B1\n"), HasSubstr("rank 0, action 1 (B1): before its forward"));
  EXPECT_THAT(error("0: F0 F1 W0 B1\n1: F0 F1 B0 B1\n"), HasSubstr("rank 0, action 2 (W0): before its I"));
  EXPECT_THAT(error("0: F0 F1 B0\n1: F0 F1 B0 B1\n"), HasSubstr("rank 0 never runs the backward of chunk 0, micro-"));
  EXPECT_THAT(error("0: F0 F1 B0 I1\n1: F0 F1 B0 B1\n"), HasSubstr("never runs the backward by weights of chunk 0"));
  EXPECT_THAT(error("0: F0 F1 B0 B1\n1: F0 F1 B0 B2\n"), HasSubstr("(B2): there are 2 micro-batches"));
  EXPECT_THAT(error("0: F0 F1 B0 1B1\n1: F0 F1 B0 B1\n"), HasSubstr("(1B1): there are 1 chunks per rank"));
  EXPECT_THAT(error("0: F0 F1 B0 B1\n"), HasSubstr("actions of 1 ranks, of 2"));
  EXPECT_THAT(error("0: F0 F1 B1 B0\n1: F0 F1 B1 B0\n"), HasSubstr("the weights' part of micro-batch 0 comes first"));
  EXPECT_THAT(error("0: F0 F1 B0 B1\n1: F1 F0 B0 B1\n"),
              HasSubstr("rank 1, action 0 (F1): takes the activation of micro-batch 1 from chunk 0 of rank 0, which "
                        "sends that of micro-batch 0 from chunk 0 first"));
  EXPECT_THAT(
      error("0: F0 B0 F1 B1\n1: F0 F1 B0 B1\n"),
      HasSubstr("deadlocks: rank 0, action 1 (B0), waits for a gradient of rank 1; rank 1, action 1 (F1), waits "
                "for an activation of rank 0"));
  PipelineSchedule named = schedule_of("gpipe", 1, 1, 1);
  named.name = "<b>";
  EXPECT_THAT(error_of(named), HasSubstr("small letters"));
}

TEST(Verify, WeightsMayComeLateInTheirOrder) {
  const std::string head = "pipeline a ranks 1 chunks 1 micro_batches 3\n0: ";
  EXPECT_EQ(error_of(parsed(head + "F0 F1 F2 I2 I0 I1 W0 W1 W2")), "none");
  EXPECT_THAT(error_of(parsed(head + "F0 F1 F2 I2 I0 I1 W1 W0 W2")), HasSubstr("action 6 (W1)"));
  EXPECT_THAT(verify(parsed(head + "F0 F1 I1 F2 I0 I2 W0 W1 W2")).value().in_flight, ElementsAre(3));
  EXPECT_THAT(verify(parsed(head + "F0 F1 I1 F2 I0 I2 W0 W1 W2")).value().in_flight_inputs, ElementsAre(2));
}

}  // namespace
}  // namespace wreath::training::verifying
