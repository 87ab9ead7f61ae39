// Sizes, statistics and the command line.
#include "perf/common/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace wreath::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::variant<Options, Stop> parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "all_reduce_perf");
  return parse_options(row_of("all_reduce_perf"), arguments);
}

Options accepted(std::vector<std::string> arguments) {
  auto parsed = parse(std::move(arguments));
  if (const Stop* stop = std::get_if<Stop>(&parsed)) ADD_FAILURE() << stop->text;
  return std::holds_alternative<Options>(parsed) ? std::get<Options>(parsed) : Options{};
}

Stop refused(std::vector<std::string> arguments) {
  auto parsed = parse(std::move(arguments));
  if (std::holds_alternative<Options>(parsed)) return {0, "accepted"};
  return std::get<Stop>(parsed);
}

TEST(Sizes, ReadBinaryUnits) {
  EXPECT_EQ(parse_size("8"), 8U);
  EXPECT_EQ(parse_size("1K"), 1024U);
  EXPECT_EQ(parse_size("1.5m"), 1536U * 1024);
  EXPECT_EQ(parse_size("2GiB"), std::size_t{2} << 30);
  EXPECT_EQ(parse_size("64kb"), 65536U);
}

TEST(Sizes, RefuseWhatIsNoSize) {
  for (const char* text : {"", "K", "3Q", "-1", "1e3", "1.0001", "0x10", "nan", "inf", "99999999999G", "1K1"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(Sizes, AreWrittenAsShortAsTheyAreExact) {
  EXPECT_EQ(format_size(256 * 1024), "256K");
  EXPECT_EQ(format_size(1000), "1000");
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(std::size_t{3} << 30), "3G");
}

TEST(Sizes, GrowByFactorOrStepInWholeElements) {
  EXPECT_THAT(sizes_of({8, 100, 1, 2}, 4), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(sizes_of({4, 16, 4, 1}, 4), ElementsAre(4, 8, 12, 16));
  EXPECT_THAT(sizes_of({5, 23, 6, 1}, 4), ElementsAre(4, 8, 16, 20));
  EXPECT_THAT(sizes_of({0, 8, 1, 2}, 4), ElementsAre(0, 4, 8));
  EXPECT_THAT(sizes_of({7, 7, 0, 1}, 4), ElementsAre(4));
}

TEST(Statistics, UseNearestRankPercentiles) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Statistics s = summarize(samples);
  EXPECT_EQ(s.minimum, 1);
  EXPECT_EQ(s.maximum, 100);
  EXPECT_EQ(s.p50, 51);
  EXPECT_EQ(s.p95, 95);
  EXPECT_EQ(s.p99, 99);
  EXPECT_DOUBLE_EQ(s.mean, 50.5);
  EXPECT_NEAR(s.deviation, 28.866, 0.001);
}

TEST(Statistics, AverageModesFollowNcclTests) {
  const std::vector<double> times{3, 1, 8};
  EXPECT_EQ(average_of(Average::Rank0, times), 3);
  EXPECT_EQ(average_of(Average::Mean, times), 4);
  EXPECT_EQ(average_of(Average::Minimum, times), 1);
  EXPECT_EQ(average_of(Average::Maximum, times), 8);
}

TEST(CommandLine, HasNcclTestsDefaults) {
  const Options o = accepted({});
  EXPECT_EQ(o.sizes.minimum, std::size_t{32} << 20);
  EXPECT_EQ(o.sizes.maximum, std::size_t{32} << 20);
  EXPECT_EQ(o.sizes.step, std::size_t{1} << 20);
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmup, 1);
  EXPECT_EQ(o.check, 1);
  EXPECT_EQ(o.average, Average::Mean);
  EXPECT_THAT(o.dtypes, ElementsAre(DataType::Float32));
}

TEST(CommandLine, TakesShortAndLongNames) {
  const Options o =
      accepted({"-b", "8",   "--maxbytes=1K",  "-f2", "--iters", "7",   "-d",      "all", "-a",       "3",
                "-T", "1.5", "--reproducible", "off", "--tile",  "64K", "--lanes", "3",   "--memory", "shared",
                "-g", "1"});
  EXPECT_EQ(o.sizes.minimum, 8U);
  EXPECT_EQ(o.sizes.maximum, 1024U);
  EXPECT_EQ(o.sizes.factor, 2U);
  EXPECT_EQ(o.iterations, 7);
  EXPECT_EQ(o.dtypes.size(), all_dtypes().size());
  EXPECT_EQ(o.average, Average::Maximum);
  EXPECT_EQ(o.communicator.timeouts.stall_ms, 1500);
  EXPECT_EQ(o.communicator.timeouts.arrival_ms, 1500);
  EXPECT_FALSE(o.communicator.reproducible);
  EXPECT_EQ(o.communicator.tile_bytes, 65536U);
  EXPECT_EQ(o.communicator.lanes, 3);
  EXPECT_TRUE(o.shared_memory);
}

struct Bad {
  std::vector<std::string> arguments;
  const char* message;
};

TEST(CommandLine, RefusesNamingFlagAndValue) {
  const std::vector<Bad> bad{
      {{"-b", "3Q"}, "-b 3Q: not a size"},
      {{"-b", "2G", "-e", "1G"}, "-b 2G: larger than -e 1G"},
      {{"-b", "64M"}, "larger than -e 32M (the default)"},
      {{"-f", "1"}, "-f 1: not a whole number from 2"},
      {{"-d", "float9"}, "-d float9: unknown; known are int8, uint8, int32, "},
      {{"-o", "xor"}, "-o xor: unknown; known are sum, prod, min, max, avg, mulsum, all"},
      {{"--ranks", "0"}, "--ranks 0: "},
      {{"--transport", "nosuch"}, "'nosuch' is unknown; known are "},
      {{"--algorithm", "nosuch"}, "--algorithm nosuch: unknown; known are "},
      {{"-n", "0"}, "-n 0: not a whole number of at least 1"},
      {{"-n", "7x"}, "-n 7x: "},
      {{"-K", "1"}, "-K 1: needs -I 1"},
      {{"-I", "1", "-K", "20"}, "leaves none of -n 20"},
      {{"-i", "4", "-f", "2"}, "not together with -f"},
      {{"--nosuch"}, "--nosuch"},
      {{"-S", "yes"}, "-S yes: give 0 or 1"},
  };
  for (const Bad& each : bad) {
    const Stop stop = refused(each.arguments);
    EXPECT_EQ(stop.exit_code, 2) << each.message;
    EXPECT_THAT(stop.text, HasSubstr(each.message));
  }
}

TEST(CommandLine, RefusesEveryFlagThatMakesNoSenseHere) {
  for (const char* flag : {"-g", "-m", "-p", "-z", "-y", "-G", "-C", "-R", "-x", "-D", "-V", "-M", "-r"}) {
    const Stop stop = refused({flag, "2"});
    EXPECT_EQ(stop.exit_code, 2) << flag;
    EXPECT_THAT(stop.text, HasSubstr(std::string(flag) + " 2: "));
  }
}

TEST(CommandLine, HelpShowsExamples) {
  const Stop stop = refused({"--help"});
  EXPECT_EQ(stop.exit_code, 0);
  EXPECT_THAT(stop.text, HasSubstr("all_reduce_perf --ranks 4 -b 8 -e 64M -f 2"));
  EXPECT_THAT(stop.text, HasSubstr("--minbytes"));
}

TEST(CommandLine, ChecksOutputFilesBeforeTheRun) {
  Options options;
  options.html_file = "/nonexistent/folder/a.html";
  const auto checked = check_output_files(options);
  ASSERT_TRUE(std::holds_alternative<Stop>(checked));
  EXPECT_EQ(std::get<Stop>(checked).exit_code, 2);
  EXPECT_THAT(std::get<Stop>(checked).text, HasSubstr("--html /nonexistent/folder/a.html"));
}

}  // namespace
}  // namespace wreath::perf
