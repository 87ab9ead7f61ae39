// The command line gives sizes and options, and samples give statistics.
#include "perf/common/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "perf/base/flags.hpp"
#include "perf/common/run.hpp"
#include "perf/common/tool.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::variant<Options, Stop> parse(std::vector<std::string> arguments, const char* program = "all_reduce_perf") {
  arguments.insert(arguments.begin(), program);
  return parse_options(row_of(program), arguments);
}

Options accepted(std::vector<std::string> arguments, const char* program = "all_reduce_perf") {
  auto parsed = parse(std::move(arguments), program);
  if (const Stop* stop = std::get_if<Stop>(&parsed)) ADD_FAILURE() << stop->text;
  return std::holds_alternative<Options>(parsed) ? std::get<Options>(parsed) : Options{};
}

Stop refused(std::vector<std::string> arguments, const char* program = "all_reduce_perf") {
  auto parsed = parse(std::move(arguments), program);
  if (std::holds_alternative<Options>(parsed)) return {0, "accepted"};
  return std::get<Stop>(parsed);
}

TEST(Sizes, ReadBinaryUnits) {
  EXPECT_EQ(parse_size("8"), 8U);
  EXPECT_EQ(parse_size("1K"), 1024U);
  EXPECT_EQ(parse_size("1.5m"), 1536U * 1024);
  EXPECT_EQ(parse_size("2GiB"), std::size_t{2} << 30);
  EXPECT_EQ(parse_size("64kb"), 65536U);
  EXPECT_EQ(parse_size("1T"), std::size_t{1} << 40);
}

TEST(Sizes, RefuseWhatIsNoSize) {
  for (const char* text : {"", "K", "3Q", "-1", "1e3", "1.0001", "0x10", "nan", "inf", "99999999999G", "1K1"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(Sizes, GrowByFactorOrStepInWholeElements) {
  EXPECT_THAT(sizes_of({8, 100, 1, 2}, 4), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(sizes_of({4, 16, 4, 1}, 4), ElementsAre(4, 8, 12, 16));
  EXPECT_THAT(sizes_of({5, 23, 6, 1}, 4), ElementsAre(4, 8, 16, 20));
  EXPECT_THAT(sizes_of({1, 2, 3, 4, {8, 100, 102, 64}}, 4), ElementsAre(8, 100, 64));
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
      accepted({"-b", "8",   "--maxbytes=1K",  "-f2",        "--iters", "7",   "-d",      "all", "-a",       "3",
                "-T", "1.5", "--reproducible", "off",        "--tile",  "64K", "--lanes", "3",   "--memory", "shared",
                "-g", "1",   "--executor",     "handwritten"});
  EXPECT_EQ(o.sizes.minimum, 8U);
  EXPECT_EQ(o.communicator.overrides.executor, "handwritten");
  EXPECT_EQ(o.sizes.maximum, 1024U);
  EXPECT_EQ(o.sizes.factor, 2U);
  EXPECT_EQ(o.iterations, 7);
  EXPECT_EQ(o.dtypes.size(), all_dtypes().size());
  EXPECT_EQ(o.average, Average::Maximum);
  EXPECT_EQ(o.communicator.timeouts.stall_ms, 1500);
  EXPECT_EQ(o.communicator.timeouts.arrival_ms, 1500);
  EXPECT_FALSE(o.communicator.reproducible);
  EXPECT_EQ(o.communicator.overrides.tile_bytes, 65536U);
  EXPECT_EQ(o.communicator.overrides.lanes, 3);
  EXPECT_EQ(o.memory, MemoryPlace::Shared);
}

struct Bad {
  std::vector<std::string> arguments;
  const char* message;
};

TEST(CommandLine, NamesAdaptersAsTheSettingDoes) {
  EXPECT_EQ(accepted({"--hca", "^=mlx5_3:1"}).adapters, "^=mlx5_3:1");
  EXPECT_EQ(accepted({}).adapters, "");
  EXPECT_THAT(refused({"--help"}).text, HasSubstr("--hca NAMES"));
}

// Three ranks are no hypercube, so nothing starts.
TEST(CommandLine, TellsTheLibraryWhichAdaptersItNames) {
  const test::Environment environment{{{"WREATH_HCA", "irdma"}}};
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"hypercube_perf", "--ranks", "3"});
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    testing::internal::CaptureStderr();
    EXPECT_NE(run_tool("hypercube_perf", static_cast<int>(pointers.size()), pointers.data()), 0);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a hypercube needs a power of two"));
    return std::string(::getenv("WREATH_HCA"));
  };
  EXPECT_EQ(run({}), "irdma");
  EXPECT_EQ(run({"--hca", "=mlx5_0:1"}), "=mlx5_0:1");
}

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
      {{"--executor", "nosuch"}, "--executor nosuch: give steps or handwritten"},
      {{"-n", "0"}, "-n 0: not a whole number of at least 1"},
      {{"-n", "7x"}, "-n 7x: "},
      {{"-K", "1"}, "-K 1: needs -I 1"},
      {{"-I", "1", "-K", "20"}, "leaves none of -n 20"},
      {{"-i", "4", "-f", "2"}, "not together with -f"},
      {{"--nosuch"}, "--nosuch"},
      {{"-S", "yes"}, "-S yes: give 0 or 1"},
      {{"--sizes", "8,x"}, "--sizes 8,x: 'x' is not a size"},
      {{"--sizes", "8", "-b", "8"}, "--sizes 8: not together with -b"},
      {{"--time", "0"}, "--time 0: not a number of milliseconds above 0"},
      {{"--time", "5", "-n", "5"}, "--time 5: not together with -n"},
      {{"--repeats", "0"}, "--repeats 0: not a whole number from 1 to 1000"},
      {{"--repeats", "3", "--baseline", "k.json"}, "--repeats 3: --baseline needs 5 or more"},
      {{"--repeats", "3", "-I", "1"}, "--repeats 3: not together with -I"},
      {{"--baseline", "k.json", "-N", "0"}, "--baseline k.json: -N 0 never ends"},
      {{"--baseline", "k.json", "--json", "k.json"}, "--baseline k.json: --json would write over it"},
      {{"--tolerance", "3"}, "--tolerance 3: needs --baseline"},
      {{"--tolerance", "x", "--baseline", "k.json"}, "--tolerance x: not a number of percent above 0"},
      {{"--beside", "k.json"}, "--beside k.json: needs --html"},
      {{"--place", "in"}, "--place in: give both or out"},
  };
  for (const Bad& each : bad) {
    const Stop stop = refused(each.arguments);
    EXPECT_EQ(stop.exit_code, 2) << each.message;
    EXPECT_THAT(stop.text, HasSubstr(each.message));
  }
}

TEST(CommandLine, TakesAListOfSizes) {
  const Options o = accepted({"--sizes", "64K,8,1M"});
  EXPECT_THAT(o.sizes.list, ElementsAre(65536, 8, 1 << 20));
  EXPECT_EQ(o.sizes.minimum, 8U);
  EXPECT_EQ(o.sizes.maximum, 1U << 20);
}

TEST(CommandLine, TakesListsOfDtypesAndOperators) {
  EXPECT_THAT(accepted({"-d", "float,bfloat16"}).dtypes, ElementsAre(DataType::Float32, DataType::BFloat16));
  EXPECT_THAT(accepted({"-o", "max,sum"}).ops, ElementsAre(ReduceOp::Max, ReduceOp::Sum));
  EXPECT_THAT(refused({"-d", "float,none"}).text, HasSubstr("-d none: unknown; known are "));
}

TEST(CommandLine, TakesAPeer) {
  const Options o = accepted({"--memory", "host-device", "--peer", "nccl=/a/libnccl.so.2"});
  EXPECT_EQ(o.peer, "nccl");
  EXPECT_EQ(o.peer_file, "/a/libnccl.so.2");
  EXPECT_EQ(accepted({"--peer", "handwritten"}, "all_gather_perf").peer, "handwritten");
  EXPECT_THAT(refused({"--memory", "host-device", "--peer", "copies"}, "all_gather_perf").text,
              HasSubstr("--peer copies: only all_reduce_perf has it"));
}

TEST(CommandLine, RefusesEveryFlagThatMakesNoSenseHere) {
  for (const char* flag : {"-g", "-m", "-p", "-z", "-y", "-G", "-C", "-R", "-x", "-D", "-V", "-M", "-r"}) {
    const Stop stop = refused({flag, "2"});
    EXPECT_EQ(stop.exit_code, 2) << flag;
    EXPECT_THAT(stop.text, HasSubstr(std::string(flag) + " 2: "));
  }
}

TEST(CommandLine, TakesNcclTestsSpellingsAndOurs) {
  for (const auto& [text, dtype] :
       {std::pair{"half", DataType::Float16}, std::pair{"float16", DataType::Float16},
        std::pair{"double", DataType::Float64}, std::pair{"bfloat16", DataType::BFloat16},
        std::pair{"f8e4m3", DataType::Float8E4M3}, std::pair{"f8e5m2", DataType::Float8E5M2},
        std::pair{"uint64", DataType::Uint64}, std::pair{"int", DataType::Int32}}) {
    EXPECT_THAT(accepted({"-d", text}).dtypes, ElementsAre(dtype)) << text;
  }
  for (const DataType dtype : all_dtypes()) {
    EXPECT_THAT(accepted({"-d", std::string(table_name(dtype))}).dtypes, ElementsAre(dtype)) << "as tables spell it";
  }
  EXPECT_THAT(accepted({"-o", "mulsum"}).ops, ElementsAre(ReduceOp::PremultipliedSum));
  EXPECT_EQ(accepted({"-o", "all"}).ops.size(), all_ops().size());
}

TEST(CommandLine, TakesARootWhereThereIsOne) {
  EXPECT_EQ(accepted({"-r", "3"}, "broadcast_perf").root, 3);
  EXPECT_TRUE(accepted({"-r", "all"}, "gather_perf").all_roots);
  EXPECT_TRUE(accepted({"-r", "-1"}, "reduce_perf").all_roots);
  EXPECT_THAT(refused({"-r", "x"}, "scatter_perf").text, HasSubstr("-r x: neither a rank nor all"));
  EXPECT_THAT(refused({"-r", "1"}, "all_gather_perf").text, HasSubstr("-r 1: this collective has no root"));
}

TEST(CommandLine, RefusesWhatACollectiveHasNot) {
  EXPECT_THAT(refused({"-o", "max"}, "all_gather_perf").text, HasSubstr("-o max: this collective combines nothing"));
  EXPECT_THAT(refused({"-b", "8"}, "barrier_perf").text, HasSubstr("-b 8: a barrier moves no data"));
  EXPECT_THAT(refused({"-d", "half"}, "barrier_perf").text, HasSubstr("-d half: a barrier moves no data"));
  EXPECT_THAT(refused({"--limits"}, "barrier_perf").text, HasSubstr("--limits: it moves no data"));
  EXPECT_THAT(refused({"--limits"}, "alltoallv_perf").text, HasSubstr("--limits: ranks receive different amounts"));
  EXPECT_TRUE(accepted({"--limits"}, "broadcast_perf").limits);
  EXPECT_THAT(refused({"--transport", "tcp", "--limits"}, "broadcast_perf").text, HasSubstr("--limits: over tcp"));
  EXPECT_THAT(refused({"--algorithm", "two_shot"}, "broadcast_perf").text, HasSubstr("known are direct, "));
}

TEST(Group, IsRefusedWhenItCannotDoWhatIsAsked) {
  const auto code = [](const char* program, int root, int ranks) {
    Options options;
    options.root = root;
    const Status status = check_group(row_of(program), options, ranks);
    return status ? 0 : exit_code(status.error().code);
  };
  EXPECT_EQ(code("hypercube_perf", 0, 4), 0);
  EXPECT_EQ(code("hypercube_perf", 0, 6), 77);
  EXPECT_EQ(code("reduce_perf", 2, 3), 0);
  EXPECT_EQ(code("reduce_perf", 3, 3), 2);
}

std::vector<std::size_t> bytes_of(const char* program, const Options& options, int ranks) {
  std::vector<std::size_t> bytes;
  for (const Case& each : cases_of(row_of(program), options, ranks)) bytes.push_back(each.bytes);
  return bytes;
}

TEST(Cases, AreWholeBlocksWithoutRepeats) {
  Options options;
  options.sizes = {4, 64, 0, 2};
  EXPECT_THAT(bytes_of("all_reduce_perf", options, 3), ElementsAre(4, 8, 16, 32, 64));
  EXPECT_THAT(bytes_of("all_gather_perf", options, 3), ElementsAre(0, 12, 24, 60));
  EXPECT_THAT(bytes_of("barrier_perf", options, 3), ElementsAre(0));
  options.all_roots = true;
  EXPECT_EQ(cases_of(row_of("reduce_perf"), options, 3).size(), 15U);
  EXPECT_EQ(cases_of(row_of("reduce_perf"), options, 3).back().kind.root, 2);
}

TEST(CommandLine, RepeatsWhereABaselineJudges) {
  EXPECT_EQ(accepted({}).repeats, 1);
  EXPECT_EQ(accepted({"--baseline", "k.json"}).repeats, 9);
  EXPECT_EQ(accepted({"--baseline", "k.json", "--repeats", "5", "--tolerance", "2.5"}).tolerance_percent, 2.5);
}

TEST(CommandLine, TakesCounters) {
  EXPECT_TRUE(accepted({"--counters"}).counters);
  EXPECT_FALSE(accepted({}).counters);
  EXPECT_THAT(refused({"--help"}).text, HasSubstr("--counters"));
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

TEST(Flags, ChecksSayWhatIsWrong) {
  EXPECT_EQ(check_transport("shm"), "");
  EXPECT_THAT(check_transport("nothing"), HasSubstr("'nothing' is unknown; known are inproc, shm, verbs, ofi, tcp"));
  EXPECT_EQ(check_size("64K"), "");
  EXPECT_THAT(check_size("3Q"), HasSubstr("'3Q' is not a size"));
  EXPECT_THAT(check_output_file("/nonexistent/a"), HasSubstr("/nonexistent/a cannot be written: No such file"));
  const std::string path = testing::TempDir() + "wreath_flags_test";
  EXPECT_EQ(check_output_file(path), "");
  EXPECT_FALSE(std::filesystem::exists(path)) << "a check leaves no file";
}

}  // namespace
}  // namespace wreath::perf
