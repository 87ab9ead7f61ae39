// Measured times give rules: the fastest row that may be used, near each measured size. Rules can be written as text
// and used in choices.
#include "src/tuner/measured.hpp"

#include <gmock/gmock.h>

#include "src/bootstrap/codec.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/tuning.hpp"

namespace wreath::measured {
namespace {

constexpr std::size_t kKiB = 1024;

TuningTime time_of(std::size_t bytes, std::string algorithm, std::size_t tile_bytes, double time_us, int ranks = 4) {
  return {Collective::AllReduce, ranks, "", bytes, std::move(algorithm), tile_bytes, time_us};
}

MeasuredRules rules_of(std::vector<TuningTime> times, bool reproducible = true) {
  Tuning tuning;
  tuning.times = std::move(times);
  return MeasuredRules::of(tuning, reproducible).value();
}

std::string at(const MeasuredRules& rules, std::size_t bytes, int ranks = 4) {
  const MeasuredRule* rule = rules.find({Collective::AllReduce, ranks, "", false, bytes});
  return rule == nullptr ? "none" : std::string(rule->algorithm->name) + " " + std::to_string(rule->tile_bytes / kKiB);
}

TEST(MeasuredRules, TakeTheFastestNearEachSize) {
  const MeasuredRules rules = rules_of(
      {time_of(64 * kKiB, "one_shot", 64 * kKiB, 10), time_of(64 * kKiB, "recursive_doubling", 16 * kKiB, 5),
       time_of(256 * kKiB, "recursive_doubling", 16 * kKiB, 20), time_of(1024 * kKiB, "rabenseifner", 256 * kKiB, 50),
       time_of(1024 * kKiB, "recursive_doubling", 16 * kKiB, 90)});
  EXPECT_EQ(at(rules, 32 * kKiB + 1), "recursive_doubling 16");
  EXPECT_EQ(at(rules, 511 * kKiB), "recursive_doubling 16");
  EXPECT_EQ(at(rules, 513 * kKiB), "rabenseifner 256");
  EXPECT_EQ(at(rules, 2048 * kKiB), "rabenseifner 256");
  EXPECT_EQ(at(rules, 64 * kKiB, 3), "none");
  EXPECT_EQ(rules.find({Collective::AllReduce, 4, "tcp", false, 64 * kKiB}), nullptr);
  EXPECT_EQ(rules.find({Collective::Reduce, 4, "", false, 64 * kKiB}), nullptr);
}

// The library chooses where nothing was measured. Only the rules of the smallest and the largest size that a tuning
// always measures go on to all smaller and larger sizes.
TEST(MeasuredRules, EndNearWhatWasMeasured) {
  const MeasuredRules middle =
      rules_of({time_of(64 * kKiB, "recursive_doubling", 0, 5), time_of(256 * kKiB, "recursive_doubling", 0, 5)});
  EXPECT_EQ(at(middle, 32 * kKiB), "none");
  EXPECT_EQ(at(middle, 32 * kKiB + 1), "recursive_doubling 0");
  EXPECT_EQ(at(middle, 512 * kKiB), "recursive_doubling 0");
  EXPECT_EQ(at(middle, 512 * kKiB + 1), "none");
  const MeasuredRules all =
      rules_of({time_of(8, "recursive_doubling", 0, 5), time_of(64 * kKiB * kKiB, "rabenseifner", 0, 5)});
  EXPECT_EQ(at(all, 1), "recursive_doubling 0");
  EXPECT_EQ(at(all, kUnknownBytes), "rabenseifner 0");
  EXPECT_EQ(MeasuredRules::parse(middle.to_text()).value().to_text(), middle.to_text());
}

// At 1 MiB the library's rules choose two_shot in tiles of 256 KiB.
TEST(MeasuredRules, LeaveTheLibrarysChoiceWhereNothingIsClearlyFaster) {
  const auto with = [](double other_us) {
    return rules_of(
        {time_of(1024 * kKiB, "two_shot", 256 * kKiB, 100), time_of(1024 * kKiB, "one_shot", 64 * kKiB, other_us)});
  };
  EXPECT_EQ(at(with(92), 1024 * kKiB), "two_shot 256");
  EXPECT_EQ(at(with(88), 1024 * kKiB), "one_shot 64");
}

TEST(MeasuredRules, HoldReproducibleSumsToTheirOrder) {
  const std::vector<TuningTime> times = {time_of(1024 * kKiB, "ring", 256 * kKiB, 10),
                                         time_of(1024 * kKiB, "one_shot", 64 * kKiB, 50)};
  EXPECT_EQ(at(rules_of(times), 1024 * kKiB), "one_shot 64");
  EXPECT_EQ(at(rules_of(times, false), 1024 * kKiB), "ring 256");
  EXPECT_EQ(at(rules_of({time_of(1024, "ring", 0, 10, 2)}), kKiB, 2), "ring 0") << "two ranks have one order";
  EXPECT_EQ(at(rules_of({time_of(1024, "ring", 0, 10)}), kKiB), "none");
}

// Each wire has times of its own. The rules of the least size have no rule of the library's before them.
TEST(MeasuredRules, OfOneWireAreNotOfAnother) {
  TuningTime adapters = time_of(8, "one_shot", 64 * kKiB, 10);
  TuningTime streams = time_of(8, "recursive_doubling", 16 * kKiB, 5);
  adapters.wire = "verbs";
  streams.wire = "tcp";
  const std::string text = rules_of({adapters, streams}).to_text();
  const MeasuredRules rules = MeasuredRules::parse(text).value();
  const auto row_of = [&](const std::string& wire) {
    const MeasuredRule* const rule = rules.find({Collective::AllReduce, 4, wire, false, 8});
    return rule == nullptr ? "none" : std::string(rule->algorithm->name);
  };
  EXPECT_EQ(row_of("verbs"), "one_shot");
  EXPECT_EQ(row_of("tcp"), "recursive_doubling");
  EXPECT_EQ(row_of(""), "none");
  EXPECT_EQ(row_of("several"), "none");
}

TEST(MeasuredRules, AreTextAndBack) {
  const MeasuredRules rules =
      rules_of({time_of(64 * kKiB, "one_shot", 16 * kKiB, 10), time_of(1024 * kKiB, "rabenseifner", 0, 50),
                time_of(64 * kKiB, "one_shot", 16 * kKiB, 10, 2)});
  const std::string text = rules.to_text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  const MeasuredRules again = MeasuredRules::parse(text).value();
  EXPECT_EQ(again.to_text(), text);
  EXPECT_EQ(at(again, 300 * kKiB), at(rules, 300 * kKiB));
  EXPECT_TRUE(MeasuredRules::parse("").value().empty());
  for (const std::string wrong :
       {"all_reduce 2 mapped 0 8 one_shot", "all_reduce 2 mapped 0 8 one_shot 0 0", "all_reduce 2 mapped 0 8 nothing 0",
        "nothing 2 mapped 0 8 one_shot 0", "all_reduce 0 mapped 0 8 one_shot 0", "all_reduce -2 mapped 0 8 one_shot 0",
        "all_reduce 2 pigeon 0 8 one_shot 0", "all_reduce 2 shm 0 8 one_shot 0", "all_reduce 2 mapped 2 8 one_shot 0",
        "all_reduce 2 mapped 0 x one_shot 0", "all_reduce 2 mapped 0 8 one_shot 99999999999999", "\n", " ",
        "all_reduce 2 mapped 0 8 one_shot 0\nall_reduce 2 mapped 0 8 ring 0"}) {
    EXPECT_FALSE(MeasuredRules::parse(wrong)) << wrong;
  }
}

// The longest table fits beside the other settings that rank 0 sends.
TEST(MeasuredRules, OfTheLargestTableFitIntoTheSettings) {
  std::string text;
  for (std::size_t i = 0; i < MeasuredRules::kMaximum; ++i) {
    text += "all_reduce 4096 mapped 1 " + std::to_string(kUnknownBytes - 1000 + i) + " recursive_doubling 1073741824\n";
  }
  EXPECT_TRUE(MeasuredRules::parse(text));
  EXPECT_LT(text.size() * 11 / 10, kMaxSettingsBytes - 16 * kKiB);
  EXPECT_FALSE(MeasuredRules::parse(text + "all_reduce 4096 mapped 1 18446744073709551615 ring 0\n"));
  Tuning tuning;
  for (std::size_t i = 0; i <= MeasuredRules::kMaximum; ++i) {
    tuning.times.push_back(time_of(1000 + 10 * i, i % 2 == 0 ? "two_shot" : "one_shot", 4 * kKiB, 1));
  }
  EXPECT_FALSE(MeasuredRules::of(tuning, true));
}

TEST(MeasuredRules, OfDevicesStandBesideThoseOfTheHost) {
  const auto on_device = [](std::string_view row, double time_us) {
    TuningTime time = time_of(1024 * kKiB, std::string(row), 256 * kKiB, time_us);
    time.device = true;
    return time;
  };
  TunerContext context = plain_context(4, "", true);
  context.measured = rules_of({on_device("two_shot", 100), on_device("one_shot", 80),
                               time_of(1024 * kKiB, "recursive_doubling", 64 * kKiB, 10)});
  context.measured = MeasuredRules::parse(context.measured.to_text()).value();
  const auto plan = [&] { return describe(choose(context, {Collective::AllReduce, 1024 * kKiB})); };
  EXPECT_EQ(plan(), "recursive_doubling lanes=1 tile=64K order=canonical") << "of the host";
  context.gpus = true;
  EXPECT_EQ(plan(), "one_shot lanes=2 tile=256K order=canonical");
}

TEST(MeasuredRules, ComeBeforeTheLibrarysOwnUnlessARowIsNamed) {
  TunerContext context = plain_context(4, "", true);
  context.measured = rules_of({time_of(1024 * kKiB, "recursive_doubling", 64 * kKiB, 10)});
  const Query query{Collective::AllReduce, 1024 * kKiB};
  EXPECT_EQ(describe(choose(context, query)), "recursive_doubling lanes=1 tile=64K order=canonical");
  EXPECT_EQ(choose(context, {Collective::Reduce, 1024 * kKiB}).algorithm->name, "direct");
  context.slot_bytes = 32 * kKiB;
  EXPECT_EQ(choose(context, query).tile_bytes, 32 * kKiB);
  context.tile_bytes = 16 * kKiB;
  EXPECT_EQ(choose(context, query).tile_bytes, 16 * kKiB);
  context.algorithm = "ring";
  EXPECT_EQ(choose(context, query).algorithm->name, "ring");
}

// The rule names a row that serves blocks only if they are equal; the second call has blocks that vary.
TEST(MeasuredRules, GiveWayWhereTheirRowDoesNotServe) {
  Tuning tuning;
  tuning.times = {{Collective::AllToAll, 4, "", 1024 * kKiB, "bruck", 64 * kKiB, 10}};
  TunerContext context = plain_context(4, "", true);
  context.measured = MeasuredRules::of(tuning, true).value();
  EXPECT_EQ(choose(context, {Collective::AllToAll, 1024 * kKiB}).algorithm->name, "bruck");
  EXPECT_EQ(choose(context, {Collective::AllToAll, 1024 * kKiB, true}).algorithm->name, "direct");
}

// The small path is that of one_shot, whatever tile was measured.
TEST(MeasuredRules, LeaveSmallMessagesTheirPath) {
  TunerContext context = plain_context(4, "", true);
  context.measured = rules_of({time_of(8 * kKiB, "one_shot", 0, 10), time_of(128 * kKiB, "two_shot", 16 * kKiB, 10)});
  EXPECT_TRUE(choose(context, {Collective::AllReduce, 8}).small);
  EXPECT_EQ(choose(context, {Collective::AllReduce, 20 * kKiB}).tile_bytes, 256 * kKiB) << "the library's own";
}

}  // namespace
}  // namespace wreath::measured
