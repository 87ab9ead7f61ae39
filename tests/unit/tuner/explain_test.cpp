// Explanations name the choice of communicators, every other row with its reason, and the times that are known.
#include <gmock/gmock.h>

#include <cmath>

#include "src/base/cpu.hpp"
#include "src/tuner/model.hpp"
#include "src/tuner/ring.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/tuning.hpp"

namespace wreath {
namespace {

using testing::HasSubstr;

PlanQuestion question(Collective collective, std::size_t bytes, int ranks = 2, bool mapped = true) {
  return {.collective = collective, .bytes = bytes, .ranks = ranks, .wire = mapped ? "" : "tcp"};
}

TEST(Explain, NamesWhatCommunicatorsChooseAndAllOtherRowsOfTheCollective) {
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::Exchange) continue;
    for (const int ranks : {2, 3, 8}) {
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{40'000}, std::size_t{64} << 20}) {
        const PlanQuestion asked = question(collective, bytes, ranks, ranks != 8);
        const PlanExplanation explained = explain_plan(asked, nullptr).value();
        TunerContext context = plain_context(ranks, asked.wire, true);
        context.crowded = asked.wire.empty() && ranks > usable_cores();
        if (explained.ping_pong) context.ping_pong = PairSizes::of(cpu_vendor(), cache_sizes());
        context.single_copy = explained.copied_to_bytes > 0;
        context.small = small_limits(ranks, explained.ring_bytes, explained.ping_pong);
        EXPECT_EQ(explained.ring_bytes > 0, asked.wire.empty());
        const Choice choice = choose(context, {collective, bytes});
        EXPECT_EQ(explained.chosen.algorithm, choice.algorithm);
        EXPECT_EQ(explained.chosen.tile_bytes, choice.tile_bytes);
        EXPECT_EQ(explained.chosen.small, choice.small);
        EXPECT_GT(explained.chosen.predicted_us.value_or(0), 0);
        EXPECT_FALSE(explained.tuned);
        EXPECT_FALSE(explained.chosen.measured_us || explained.limit_us);
        std::size_t rows = 1;
        for (const PlanCandidate& other : explained.others) {
          ++rows;
          EXPECT_NE(other.algorithm, choice.algorithm);
          EXPECT_EQ(other.algorithm->collective, collective);
          const bool canonical = other.algorithm->order == Order::Canonical || ranks == 2;
          const bool serves = other.algorithm->supports({collective, ranks});
          EXPECT_EQ(other.refusal.empty(), canonical && serves) << other.algorithm->name << ": " << other.refusal;
        }
        const auto all = std::count_if(algorithms().begin(), algorithms().end(),
                                       [&](const Algorithm& row) { return row.collective == collective; });
        // A barrier's small path is the row of another collective.
        const bool borrowed = choice.algorithm->collective != collective;
        EXPECT_EQ(static_cast<std::ptrdiff_t>(rows), all + (borrowed ? 1 : 0));
      }
    }
  }
}

// Constants are of streams, and each wire has measurements of its own.
TEST(Explain, OfAWireTellsWhatWasMeasuredOfIt) {
  Tuning tuning;
  tuning.times = {{Collective::AllReduce, 2, "verbs", 1 << 20, "two_shot", 262144, 60}};
  for (const Algorithm& row : algorithms()) {
    if (row.collective != Collective::AllReduce) continue;
    tuning.times.push_back({Collective::AllReduce, 2, "verbs", 1 << 20, std::string(row.name), 16384, 100});
  }
  PlanQuestion asked = question(Collective::AllReduce, 1 << 20);
  asked.wire = "verbs";
  asked.predictable = false;
  const PlanExplanation explained = explain_plan(asked, &tuning).value();
  EXPECT_EQ(explained.chosen.algorithm->name, "two_shot");
  EXPECT_TRUE(explained.tuned);
  EXPECT_EQ(explained.chosen.measured_us, 60);
  EXPECT_FALSE(explained.chosen.predicted_us || explained.limit_us);
  for (const PlanCandidate& other : explained.others) EXPECT_FALSE(other.predicted_us) << other.algorithm->name;
  asked.wire = "tcp";
  const PlanExplanation other_wire = explain_plan(asked, &tuning).value();
  EXPECT_FALSE(other_wire.tuned);
  EXPECT_FALSE(other_wire.chosen.measured_us);
  for (const PlanCandidate& other : other_wire.others) EXPECT_FALSE(other.measured_us) << other.algorithm->name;
}

// For GPUs only times measured on devices count, and nothing is predicted.
TEST(Explain, OfGpusTellsWhatWasMeasuredOfThem) {
  Tuning tuning;
  tuning.times = {{Collective::AllReduce, 2, "", 1 << 20, "two_shot", 262144, 60, true}};
  PlanQuestion asked = question(Collective::AllReduce, 1 << 20);
  EXPECT_FALSE(explain_plan(asked, &tuning)->tuned);
  asked.device = true;
  const PlanExplanation explained = explain_plan(asked, &tuning).value();
  EXPECT_TRUE(explained.tuned);
  EXPECT_EQ(explained.chosen.measured_us, 60);
  EXPECT_FALSE(explained.chosen.predicted_us || explained.limit_us);
}

TEST(Explain, RefusesWhatHasNoPlan) {
  EXPECT_FALSE(explain_plan(question(Collective::Exchange, 8), nullptr));
  EXPECT_FALSE(explain_plan(question(Collective::AllReduce, 8, 0), nullptr));
}

// The time that `./run compare` measured for a call on 2026-11-21, with 2 ranks.
struct Measured {
  bool mapped;
  Collective collective;
  std::size_t bytes;
  double time_us;
};
constexpr Measured kMeasured[] = {{true, Collective::AllGather, 8, 0.6},
                                  {true, Collective::AllGather, 32768, 3.65},
                                  {true, Collective::AllGather, 262144, 17.4},
                                  {true, Collective::AllGather, 67108864, 10884},
                                  {true, Collective::AllReduce, 32768, 7.6},
                                  {true, Collective::AllReduce, 262144, 28.6},
                                  {true, Collective::AllReduce, 2097152, 310},
                                  {true, Collective::AllReduce, 67108864, 17742},
                                  {true, Collective::Broadcast, 8, 0.42},
                                  {true, Collective::Broadcast, 262144, 19.3},
                                  {true, Collective::Broadcast, 67108864, 15207},
                                  {true, Collective::ReduceScatter, 2097152, 185},
                                  {true, Collective::ReduceScatter, 67108864, 9408},
                                  {false, Collective::AllGather, 8, 4.22},
                                  {false, Collective::AllGather, 262144, 29.8},
                                  {false, Collective::AllGather, 67108864, 14367},
                                  {false, Collective::AllReduce, 32768, 12.1},
                                  {false, Collective::AllReduce, 2097152, 494},
                                  {false, Collective::AllReduce, 67108864, 23616},
                                  {false, Collective::Broadcast, 262144, 35.8},
                                  {false, Collective::Broadcast, 67108864, 18236},
                                  {false, Collective::ReduceScatter, 262144, 32.4}};

TEST(Model, IsWithinTwiceOfWhatWasMeasured) {
  double sum = 0;
  for (const Measured& each : kMeasured) {
    const Choice choice = choose(plain_context(2, each.mapped ? "" : "tcp", true), {each.collective, each.bytes});
    const double us = predict_us(choice, 2, each.bytes, link_model(each.mapped, 2, 2, each.bytes)).value();
    EXPECT_LT(us, 2 * each.time_us) << name(each.collective) << " of " << each.bytes;
    EXPECT_GT(us, each.time_us / 2) << name(each.collective) << " of " << each.bytes;
    sum += std::log(us / each.time_us);
  }
  EXPECT_NEAR(sum / std::size(kMeasured), 0, 0.15);
}

TEST(Model, ExtendsWhatItSimulatesAlongALine) {
  const Choice choice{.algorithm = find_algorithm(Collective::AllReduce, "two_shot"), .tile_bytes = 16 * 1024};
  const FlatModel model = link_model(true, 2, 2, std::size_t{64} << 20);
  const double one = predict_us(choice, 2, std::size_t{64} << 20, model).value();
  const double two = predict_us(choice, 2, std::size_t{128} << 20, model).value();
  EXPECT_NEAR(two / one, 2, 0.02);
}

TEST(Model, LetsRanksShareCores) {
  const FlatModel alone = link_model(true, 4, 4, 1 << 20);
  const FlatModel crowded = link_model(true, 4, 2, 1 << 20);
  EXPECT_DOUBLE_EQ(crowded.copy_gb_s, alone.copy_gb_s / 2);
  EXPECT_GT(crowded.latency_us, 2 * alone.latency_us);
}

// Hosts that a wire links have cores of their own, so the cores of this machine must not matter.
TEST(Explain, OverAWireDoesNotDependOnTheCoresOfThisMachine) {
  const int ranks = std::min(4 * usable_cores(), kMostPredictedRanks);
  // At this size the rules for ranks that share cores differ from the rules for other ranks.
  const std::size_t bytes = 16 * 1024;
  const PlanExplanation wire = explain_plan(question(Collective::AllReduce, bytes, ranks, false), nullptr).value();
  const Choice chosen = choose(plain_context(ranks, "tcp", true), {Collective::AllReduce, bytes});
  EXPECT_EQ(wire.chosen.algorithm->name, chosen.algorithm->name);
  EXPECT_DOUBLE_EQ(*wire.chosen.predicted_us,
                   predict_us(chosen, ranks, bytes, link_model(false, ranks, ranks, bytes)).value());
  const PlanExplanation mapped = explain_plan(question(Collective::AllReduce, bytes, ranks, true), nullptr).value();
  const Choice shared = choose(plain_context(ranks, "", true), {Collective::AllReduce, bytes});
  EXPECT_DOUBLE_EQ(*mapped.chosen.predicted_us,
                   predict_us(shared, ranks, bytes, link_model(true, ranks, usable_cores(), bytes)).value());
}

// The rules hold what was measured, so they may differ from the prior, but only within bounds.
TEST(Model, AgreesWithTheRulesWithinBounds) {
  for (const Collective collective : all_collectives()) {
    if (collective == Collective::Exchange) continue;
    for (const int ranks : {2, 4, 8}) {
      for (const bool mapped : {false, true}) {
        // A barrier has no data.
        const std::size_t most = collective == Collective::Barrier ? 8 : std::size_t{64} << 20;
        for (std::size_t bytes = 8; bytes <= most; bytes *= 8) {
          const PlanExplanation explained = explain_plan(question(collective, bytes, ranks, mapped), nullptr).value();
          for (const PlanCandidate& other : explained.others) {
            if (!other.refusal.empty()) continue;
            EXPECT_LT(*explained.chosen.predicted_us, 3 * *other.predicted_us)
                << name(collective) << " of " << bytes << " on " << ranks << (mapped ? " mapped" : " wired")
                << " ranks: " << explained.chosen.algorithm->name << " against " << other.algorithm->name;
          }
        }
      }
    }
  }
}

TuningTime time_of(std::size_t bytes, std::string algorithm, std::size_t tile_bytes, double time_us) {
  return {Collective::AllReduce, 2, "", bytes, std::move(algorithm), tile_bytes, time_us};
}

TEST(Explain, ShowsWhatATuningMeasured) {
  Tuning tuning = empty_tuning();
  constexpr std::size_t kMiB = 1 << 20;
  tuning.times = {time_of(kMiB, "ring", 65536, 100), time_of(kMiB, "two_shot", 262144, 200),
                  time_of(4 * kMiB, "ring", 65536, 400), time_of(4 * kMiB, "two_shot", 262144, 800)};
  tuning.limits = {{Collective::AllReduce, 2, "", kMiB, 50}, {Collective::AllReduce, 2, "", 4 * kMiB, 200}};
  const PlanExplanation explained = explain_plan(question(Collective::AllReduce, 2 * kMiB), &tuning).value();
  EXPECT_TRUE(explained.tuned);
  EXPECT_EQ(explained.chosen.algorithm->name, "ring");
  EXPECT_EQ(explained.chosen.tile_bytes, 65536u);
  EXPECT_NEAR(*explained.chosen.measured_us, 200, 1e-6);
  EXPECT_NEAR(*explained.limit_us, 100, 1e-6);
  for (const PlanCandidate& other : explained.others) {
    EXPECT_EQ(other.measured_us.has_value(), other.algorithm->name == "two_shot");
    if (other.measured_us) {
      EXPECT_NEAR(*other.measured_us, 400, 1e-6);
    }
  }
  const PlanExplanation elsewhere = explain_plan(question(Collective::AllReduce, 2 * kMiB, 3), &tuning).value();
  EXPECT_FALSE(elsewhere.tuned || elsewhere.chosen.measured_us || elsewhere.limit_us);
}

}  // namespace
}  // namespace wreath
