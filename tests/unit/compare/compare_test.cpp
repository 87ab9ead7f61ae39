// Tests what a comparison makes of its times, how it starts the other programs, and that it never waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "perf/compare/network.hpp"
#include "perf/compare/processes.hpp"
#include "perf/compare/report.hpp"
#include "perf/compare/settings.hpp"
#include "tests/support/surroundings.hpp"

namespace wreath::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

Times times_of(std::vector<double> us) {
  Times times;
  for (std::size_t i = 0; i < us.size(); ++i) times.us[static_cast<int>(i)] = us[i];
  return times;
}

TEST(Median, IsTheMiddleOrBetweenTheTwo) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}

// The interval follows P(a median lies outside the k-th values from both ends) = 2 P(Binomial(n, 1/2) < k) <= 0.1.
TEST(MedianInterval, LeavesOutAsManyAsNinetyPercentAllow) {
  const auto of = [](int n) {
    std::vector<double> values;
    for (int i = n; i > 0; --i) values.push_back(i);
    const Interval interval = median_interval(values);
    return std::pair(interval.low, interval.high);
  };
  EXPECT_EQ(of(1), std::pair(1.0, 1.0));
  EXPECT_EQ(of(7), std::pair(1.0, 7.0));
  EXPECT_EQ(of(8), std::pair(2.0, 7.0));
  EXPECT_EQ(of(10), std::pair(2.0, 9.0));
  EXPECT_EQ(of(11), std::pair(3.0, 9.0));
  EXPECT_EQ(of(20), std::pair(6.0, 15.0));
}

TEST(Judge, TakesTheBestPeerThatIsRight) {
  Contest contest{{"wreath", times_of({2, 2, 4})}, {"slow", times_of({9, 9, 9})}, {"good", times_of({3, 4, 8})}};
  contest["wrong"] = times_of({1, 1, 1});
  contest["wrong"].wrong = 1;
  const auto verdict = judge(contest);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->best, "good");
  EXPECT_EQ(verdict->wreath_us, 2);
  EXPECT_EQ(verdict->best_us, 4);
  // The ratio is the median of 1.5, 2 and 2.
  EXPECT_EQ(verdict->ratio, 2);
  EXPECT_EQ(verdict->rounds, 3);
}

TEST(Judge, ComparesOnlyRoundsThatBothHave) {
  Contest contest{{"wreath", times_of({1, 1, 100})}, {"peer", times_of({2, 2})}};
  const auto verdict = judge(contest);
  EXPECT_EQ(verdict->ratio, 2);
  EXPECT_EQ(verdict->rounds, 2);
  EXPECT_FALSE(judge({{"peer", times_of({1})}}));
  EXPECT_EQ(judge({{"wreath", times_of({1})}})->best, "");
}

TEST(Judge, CallsSlowerOnlyWhatIsSoThroughout) {
  EXPECT_TRUE((Verdict{"peer", 2, 1, 0.5, {0.4, 0.94}, 8}.slower()));
  EXPECT_FALSE((Verdict{"peer", 2, 1, 0.5, {0.4, 0.96}, 8}.slower()));
  EXPECT_FALSE((Verdict{"", 2, 0, 0, {0, 0}, 0}.slower()));
}

TEST(Judge, LooksAtTheSettingsThatCount) {
  const Contest contest{{"wreath", times_of({2, 2})}, {"a", times_of({3, 3})}, {"b", times_of({8, 8})}};
  EXPECT_EQ(judge(contest, [](const std::string& code) { return code == "b"; })->ratio, 4);
  EXPECT_EQ(judge(contest, [](const std::string&) { return false; })->best, "");
}

// Each try runs in a child, since a process cannot leave its own network again.
TEST(OwnNetwork, IsUnderTheCongestionControlAsked) {
  const auto enter = [](const char* name) {
    const Status entered = enter_own_network(name);
    if (entered) ::_exit(congestion_control() == name ? 0 : 1);
    std::fputs(entered.error().message.c_str(), stderr);
    ::_exit(77);
  };
  if (::geteuid() != 0) GTEST_SKIP() << "makes a network namespace: run it as root";
  EXPECT_EXIT(enter("reno"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(enter("nonsense"), testing::ExitedWithCode(77), "'nonsense' is no congestion control");
}

TEST(Settings, HaveCodesOfTheirOwn) {
  for (const Setting& row : settings()) EXPECT_EQ(find_setting(row.transport(), row.code), &row) << row.shown;
  EXPECT_EQ(find_setting("shm", "nobody"), nullptr);
}

TEST(Settings, StartOneProcessOfAStarterOrOneARank) {
  const Places places{"/bin", "/scratch", "/before/bin", ""};
  const auto mpi = start_of(*find_setting("shm", "On"), 2, places, "all_reduce_perf", {"--sizes", "8"});
  ASSERT_EQ(mpi.commands.size(), 1u);
  EXPECT_THAT(mpi.commands[0], IsSupersetOf({"-n", "2", "btl_vader_single_copy_mechanism", "none"}));
  const auto ours = start_of(*find_setting("tcp", "wreath"), 4, places, "barrier_perf", {"-a", "3"});
  EXPECT_THAT(ours.commands,
              ElementsAre(ElementsAre("/bin/barrier_perf", "--ranks", "4", "--transport", "tcp", "-a", "3")));
  const auto before = start_of(*find_setting("shm", "build"), 2, places, "barrier_perf", {});
  EXPECT_THAT(before.commands,
              ElementsAre(ElementsAre("/before/bin/barrier_perf", "--ranks", "2", "--transport", "shm")));
  const auto gloo = start_of(*find_setting("tcp", "G"), 2, places, "all_reduce_perf", {});
  ASSERT_EQ(gloo.commands.size(), 2u);
  EXPECT_THAT(gloo.commands[1], ElementsAre("/bin/peer_gloo", "1", "2", "/scratch", "all_reduce_perf", "--no-pin"));
  EXPECT_THAT(start_of(*find_setting("tcp", "M"), 2, places, "all_reduce_perf", {}).variables,
              IsSupersetOf({"UCX_TLS=tcp,self"}));
}

// A newer library is in a folder of its own, which its variables may name.
TEST(Settings, StartNewerLibrariesFromTheirFolder) {
  const Places places{"/bin", "/scratch", "", "/peers"};
  const auto intel = start_of(*find_setting("shm", "It"), 2, places, "all_reduce_perf", {});
  ASSERT_EQ(intel.commands.size(), 1u);
  EXPECT_EQ(intel.commands[0].front(), "/peers/impi/bin/mpiexec.hydra");
  EXPECT_THAT(intel.commands[0], IsSupersetOf({"/bin/peer_impi", "all_reduce_perf"}));
  EXPECT_THAT(intel.variables,
              IsSupersetOf({"I_MPI_ROOT=/peers/impi", "I_MPI_TUNING_BIN=/peers/impi/opt/mpi/etc/tuning_spr_shm.dat"}));
}

TEST(Settings, NameTheProgramThatIsMissing) {
  EXPECT_EQ(missing(*find_setting("tcp", "G"), {"/nowhere", "", ""}), "/nowhere/peer_gloo");
}

class Runs : public testing::Test {
 protected:
  Status run(const std::string& script, std::int64_t timeout_ms, int processes = 1) {
    Start start;
    start.commands.assign(static_cast<std::size_t>(processes), {"/bin/sh", "-c", script});
    start.variables = {"WORD=from here"};
    return run_to_end(start, log(), timeout_ms);
  }
  std::string log() const { return folder_ / "log"; }
  wreath::test::Folder folder_;
};

TEST_F(Runs, EndWellAndKeepTheOutput) {
  EXPECT_TRUE(run("echo $WORD", 10'000));
  std::ifstream file(log());
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "from here");
}

TEST_F(Runs, SayHowTheyFailed) {
  const Status failed = run("echo first; echo why >&2; exit 7", 10'000);
  ASSERT_FALSE(failed);
  // The message leaves out the program's folder, since results are read on other machines, too.
  EXPECT_THAT(failed.error().message, StartsWith("sh: exit code 7"));
  EXPECT_THAT(failed.error().message, HasSubstr("why"));
  EXPECT_THAT(run("kill -9 $$", 10'000).error().message, HasSubstr("signal 9"));
}

TEST_F(Runs, AreEndedWhenTheyTakeTooLong) {
  const Status late = run("sleep 100", 200, 2);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::Timeout);
}

// One process fails, and the other would go on.
TEST_F(Runs, AreEndedTogether) {
  EXPECT_FALSE(run("if mkdir " + log() + ".d 2>/dev/null; then exit 1; fi; sleep 100", 30'000, 2));
}

Comparison example() {
  Comparison comparison{"compare", "abc", "a machine",     "today",      2,
                        "reno",    {},    {{0, {60, 61}}}, {"a remark"}, "calls alternate"};
  comparison.cells[{"shm", "all_reduce", 8}] = {{"wreath", times_of({1, 1})}, {"O", times_of({3, 3})}};
  comparison.cells[{"tcp", "broadcast", 65536}] = {{"wreath", times_of({4, 4})}, {"G", times_of({2, 2})}};
  return comparison;
}

TEST(Comparisons, AreReadAsTheyWereWritten) {
  const wreath::test::Folder folder;
  const std::string path = folder / "file.json";
  std::ofstream(path) << to_json(example());
  const auto read = read_comparison(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(example()));
}

TEST(Comparisons, CountWhatThisLibraryDidWrong) {
  Comparison comparison = example();
  comparison.cells.begin()->second["O"].wrong = 5;
  EXPECT_EQ(wrong_results(comparison.cells), 0);
  comparison.cells.begin()->second["wreath"].wrong = 2;
  EXPECT_EQ(wrong_results(comparison.cells), 2);
  EXPECT_THAT(to_text(comparison), HasSubstr("WRONG in 2 rounds"));
}

TEST(Comparisons, SayWhereTheIntervalHoldsLess) {
  EXPECT_THAT(to_text(example()), HasSubstr("note: 2 rounds: the intervals are their range"));
  Comparison comparison = example();
  for (auto& [cell, contest] : comparison.cells) {
    for (auto& [code, times] : contest) times = times_of({1, 2, 3, 4, 5});
  }
  EXPECT_THAT(to_text(comparison), Not(HasSubstr("are their range")));
}

// Rounds 0 and 3 are near, 1 is far, and in round 2 the cores moved.
TEST(Comparisons, ShowNearAndFarCoresApart) {
  Comparison comparison = example();
  EXPECT_THAT(to_text(comparison), Not(HasSubstr("cores only"))) << "all rounds are near";
  comparison.probes = {{0, {60, 61}}, {1, {200, 210}}, {2, {60, 200}}, {3, {70, 62}}};
  comparison.cells.begin()->second = {{"wreath", times_of({1, 2, 9, 1})}, {"O", times_of({3, 10, 9, 3})}};
  using enum Distance;
  EXPECT_THAT(distances(comparison),
              ElementsAre(std::pair(0, Near), std::pair(1, Far), std::pair(2, Moved), std::pair(3, Near)));
  const auto ratio = [&](Distance distance) { return judge(at_distance(comparison, distance).cells.begin()->second); };
  EXPECT_EQ(ratio(Near)->ratio, 3);
  EXPECT_EQ(ratio(Near)->rounds, 2);
  EXPECT_EQ(ratio(Far)->ratio, 5);
  const std::string text = to_text(comparison);
  EXPECT_THAT(text, HasSubstr("2 ranks, near cores only (2 rounds)"));
  EXPECT_THAT(text, HasSubstr("2 ranks, far cores only (1 rounds)"));
}

// The best setting of each cell may be another one. A program has one setting.
TEST(Comparisons, ShowEachSettingAlone) {
  Comparison comparison = example();
  comparison.cells[{"shm", "all_reduce", 8}] = {
      {"wreath", times_of({1, 1})}, {"O", times_of({3, 3})}, {"On", times_of({2, 2})}};
  comparison.cells[{"shm", "all_reduce", 64}] = {
      {"wreath", times_of({1, 1})}, {"O", times_of({2, 2})}, {"On", times_of({3, 3})}};
  const std::string text = to_text(comparison);
  EXPECT_THAT(text, HasSubstr("beside Open MPI 4                     2.00  (2 cells)"));
  EXPECT_THAT(text, HasSubstr("  always Open MPI 4                   2.45  (2 cells)"));
  EXPECT_THAT(text, HasSubstr("  always Open MPI 4 without CMA       2.45  (2 cells)"));
}

TEST(Comparisons, RefuseOtherFiles) {
  const wreath::test::Folder folder;
  const std::string path = folder / "file.json";
  EXPECT_EQ(read_comparison(path).error().code, ErrorCode::System);
  std::ofstream(path) << to_json(example()).substr(0, 200);
  const auto cut = read_comparison(path);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::Mismatch);
  EXPECT_THAT(cut.error().message, HasSubstr("file.json"));
}

TEST(Comparisons, ShowRatiosMeansAndWhatIsSlower) {
  const std::string text = to_text(example());
  EXPECT_THAT(text, HasSubstr("3.00"));
  EXPECT_THAT(text, HasSubstr("slower (whole interval below 0.95): 1 of 1 cells:\n  broadcast 64K"));
  EXPECT_THAT(text, HasSubstr("note: a remark"));
  EXPECT_THAT(text, HasSubstr("tcp under reno, 2 ranks"));
  EXPECT_THAT(text, HasSubstr("beside Gloo                           0.50  (1 cells)"));
  EXPECT_THAT(text, HasSubstr("beside Open MPI 4                     3.00  (1 cells)"));
  const std::string html = to_html(example());
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
}

}  // namespace
}  // namespace wreath::perf
