// Tests two builds in turns: which cells count as slower, which pairs count as near, and a whole run beside a build
// that sleeps.
#include "perf/compare/builds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "src/json/value.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Times rounds_of(const std::vector<double>& us) {
  Times times;
  for (std::size_t i = 0; i < us.size(); ++i) times.us[static_cast<int>(i)] = us[i];
  return times;
}

Contest contest_of(double ours, double others) {
  return {{"wreath", rounds_of(std::vector<double>(8, ours))}, {"build", rounds_of(std::vector<double>(8, others))}};
}

const Cell kSmall{"shm", "all_reduce", 8};
const Cell kLarge{"tcp", "broadcast", 65536};

BuildsReport report_of(const Contest& first, const Contest& again) {
  BuildsReport report;
  report.other = "/before/bin";
  report.runs.emplace_back();
  report.runs[0].first.cells = {{kSmall, contest_of(1, 1)}, {kLarge, first}};
  if (!again.empty()) report.runs[0].again.cells = {{kLarge, again}};
  return report;
}

TEST(Builds, AreSlowerOnlyWhereTheLongerRunSaysSoToo) {
  const BuildsReport same = report_of(contest_of(100, 98), {});
  EXPECT_THAT(looked_slower(same.runs[0].first), ElementsAre());
  EXPECT_EQ(exit_code(same), 0);
  const BuildsReport chance = report_of(contest_of(100, 90), contest_of(100, 99));
  EXPECT_THAT(looked_slower(chance.runs[0].first), ElementsAre(kLarge));
  EXPECT_THAT(slower_cells(chance.runs[0]), ElementsAre());
  EXPECT_EQ(exit_code(chance), 0);
  EXPECT_THAT(to_text(chance, 0), Not(HasSubstr("SLOWER")));
  const BuildsReport slower = report_of(contest_of(100, 90), contest_of(100, 96));
  EXPECT_THAT(slower_cells(slower.runs[0]), ElementsAre(kLarge));
  EXPECT_EQ(exit_code(slower), 1);
  EXPECT_THAT(to_text(slower, 0), HasSubstr("again  0.960  0.960 .. 0.960  SLOWER"));
  EXPECT_THAT(to_text(slower, 0), HasSubstr("rounds): 1 of 2 cells"));
}

TEST(Builds, FailWhereACellHasNoRightResultOfBoth) {
  BuildsReport report = report_of(contest_of(1, 1), {});
  report.runs[0].first.cells[kSmall]["build"].wrong = 1;
  EXPECT_EQ(exit_code(report), 1);
  EXPECT_THAT(to_text(report, 0), HasSubstr("the other build has no right result"));
  report = report_of(contest_of(1, 1), {});
  report.runs[0].first.remarks.emplace_back("it ended by signal 11");
  EXPECT_EQ(exit_code(report), 1);
  EXPECT_THAT(to_text(report, 0), HasSubstr("note: it ended by signal 11"));
}

TEST(Builds, CountPairsAsNearWhileTheCoresStayWhereTheyWere) {
  Comparison pairs;
  pairs.cells[kSmall] = {{"wreath", rounds_of({0.210, 0.300, 0.212, 0.220})},
                         {"build", rounds_of({0.207, 0.200, 0.210, 0.220})}};
  pairs.probes = {{0, {60, 61}}, {1, {60, 140}}, {2, {140, 120}}, {3, {60, 60}}};
  const PairDifference all = difference_of(pairs, 40);
  EXPECT_EQ(all.pairs, 3);
  EXPECT_NEAR(all.median_ns, 2, 1e-6);
  EXPECT_NEAR(all.interval_ns.low, 0, 1e-6);
  EXPECT_NEAR(all.interval_ns.high, 3, 1e-6);
  EXPECT_EQ(difference_of(pairs, 2).pairs, 2);
}

// Stands for the programs of a build. They write a report with one time for each size, and log the order of all starts.
class ScriptedBuild {
 public:
  explicit ScriptedBuild(std::string log, std::string end_time = "now")
      : log_(std::move(log)), end_time_(std::move(end_time)) {}
  void write(const std::string& program, double us) const {
    std::filesystem::create_directories(folder());
    const std::string path = folder() + "/" + program;
    std::ofstream(path)
        << "#!/bin/bash\n"
           "while (($#)); do case $1 in --sizes) sizes=$2; shift;; --json) file=$2; shift;; esac; shift; done\n"
           "rows=; for size in ${sizes//,/ }; do rows+=\"${rows:+,}{\\\"size\\\":${size%K},\"\n"
           "rows+='\"out_of_place\":{\"time\":"
        << us
        << ",\"nwrong\":0}}'; done\n"
           "echo \"{\\\"results\\\":[$rows],\\\"end_time\\\":\\\""
        << end_time_ << "\\\"}\" >\"$file\"; echo \"$0\" >>" << log_ << "\n"
        << (end_time_.empty() ? "exit 4\n" : "");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  std::string folder() const { return folder_ / "bin"; }

 private:
  wreath::test::Folder folder_;
  std::string log_;
  std::string end_time_;  // empty: the program fails before its end
};

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// A program that fails leaves the rows that it has measured, and they are no result.
TEST(Builds, FailWhereAProgramEndsBeforeItsLastRow) {
  const wreath::test::Folder folder;
  const ScriptedBuild build(folder / "starts", "");
  build.write("all_reduce_perf", 2);
  BuildsOptions options;
  options.run = {.rounds = 1,
                 .sizes = {8},
                 .folder = build.folder(),
                 .flag_ns = [] { return 60.0; },
                 .other_build = build.folder()};
  options.ranks = {2};
  options.transports = {"shm"};
  options.operations = {"all_reduce"};
  options.near_pairs = 0;
  const auto report = run_builds(options, {}, [](int, int, const std::string&) {});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("exit code 4"));
}

TEST(Builds, RunInTurnsAndTheSlowerCellsThreeTimesAsOften) {
  const wreath::test::Folder folder;
  const std::string log = folder / "starts";
  const ScriptedBuild after(log);
  const ScriptedBuild before(log);
  after.write("all_reduce_perf", 2);
  before.write("all_reduce_perf", 2);
  after.write("barrier_perf", 4);
  before.write("barrier_perf", 3);
  BuildsOptions options;
  options.run = {.rounds = 2,
                 .sizes = {8, 16},
                 .folder = after.folder(),
                 .flag_ns = [] { return 60.0; },
                 .other_build = before.folder()};
  options.ranks = {2};
  options.transports = {"shm", "tcp"};
  options.operations = {"all_reduce", "barrier"};
  options.near_pairs = 0;
  const auto report = run_builds(options, {}, [](int, int, const std::string&) {});
  ASSERT_TRUE(report) << report.error().message;
  // The four cells are the two sizes of barrier over two transports.
  EXPECT_EQ(slower_cells(report->runs[0]).size(), 4u);
  const auto starts = lines_of(log);
  const auto count = [&](const ScriptedBuild& build, const std::string& program) {
    return std::count(starts.begin(), starts.end(), build.folder() + "/" + program);
  };
  EXPECT_EQ(count(after, "all_reduce_perf"), 2 * 2);
  EXPECT_EQ(count(before, "barrier_perf"), 2 * 2 + 2 * 6);
  ASSERT_EQ(starts.size(), 2u * 8 + 2 * 12);
  // Every second round is in the other order.
  EXPECT_THAT((std::vector{starts[0], starts[1], starts[8], starts[9]}),
              ElementsAre(after.folder() + "/all_reduce_perf", before.folder() + "/all_reduce_perf",
                          before.folder() + "/all_reduce_perf", after.folder() + "/all_reduce_perf"));
  EXPECT_EQ(exit_code(*report), 1);
  const Json json = Json::parse(to_json(*report, 0));
  EXPECT_EQ(json["slower"].size(), 4u);
}

TEST(Builds, MeasurePairsUntilEnoughAreNear) {
  const wreath::test::Folder folder;
  const std::string log = folder / "starts";
  const ScriptedBuild after(log);
  const ScriptedBuild before(log);
  after.write("all_reduce_perf", 0.25);
  before.write("all_reduce_perf", 0.20);
  BuildsOptions options;
  // The distance of the cores changes during the second pair.
  int probes = 0;
  const auto flag_ns = [&] { return ++probes == 12 ? 140.0 : 60.0; };
  options.run = {
      .rounds = 1, .sizes = {8}, .folder = after.folder(), .flag_ns = flag_ns, .other_build = before.folder()};
  options.ranks = {2};
  options.transports = {"shm"};
  options.operations = {"all_reduce"};
  options.near_pairs = 3;
  const auto report = run_builds(options, {}, [](int, int, const std::string&) {});
  ASSERT_TRUE(report) << report.error().message;
  // The cell runs once, three times more since it is slower, and in four pairs, of which one is not near.
  EXPECT_EQ(lines_of(log).size(), 2u * (1 + 3 + 4));
  const PairDifference difference = difference_of(report->pairs, 3);
  EXPECT_EQ(difference.pairs, 3);
  EXPECT_NEAR(difference.median_ns, 50, 1e-3);
  EXPECT_THAT(to_text(*report, 3), HasSubstr("this build - the other: +50.0 ns, +50.0 .. +50.0"));
}

}  // namespace
}  // namespace wreath::perf
