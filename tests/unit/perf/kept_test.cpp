// Kept results can be read again, drawn beside a run, and used to judge the run.
#include "perf/common/kept.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "perf/base/machine.hpp"
#include "perf/common/baseline.hpp"
#include "perf/common/run.hpp"
#include "perf/common/tool.hpp"

namespace wreath::perf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// A file that only the running test uses; the destructor removes it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text = "")
      : path_(testing::TempDir() + "wreath_kept_" + testing::UnitTest::GetInstance()->current_test_info()->name() +
              fmt::format("_{}.json", number_++)) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  static inline int number_ = 0;
  std::string path_;
};

// Returns the times of nine repeats around `time_us`; their interval is from 0.98 to 1.02 of it.
Measurement around(double time_us) {
  Measurement m;
  m.time_us = time_us;
  m.algorithm_gbps = m.bus_gbps = 1;
  m.wrong = 0;
  for (const double share : {0.9, 0.98, 0.99, 1.0, 1.0, 1.0, 1.01, 1.02, 3.0}) m.samples_us.push_back(share * time_us);
  m.interval_us = median_interval(m.samples_us);
  return m;
}

Report run_of(std::initializer_list<std::pair<std::size_t, double>> sizes_and_times) {
  Report report;
  report.collective = &row_of("all_reduce_perf");
  report.world = 2;
  report.options.command = {"/some/where/all_reduce_perf"};
  report.options.repeats = 9;
  report.ranks = {{0, 1, "h1", 0, "CPU"}, {1, 2, "h1", 1, "CPU"}};
  report.transport = "shm";
  report.start_time = "2026-01-01 00:00:00";
  for (const auto& [bytes, time_us] : sizes_and_times) {
    report.rows.push_back(
        {{bytes, bytes / 4, bytes / 4, {}}, around(time_us), around(time_us), "ring lanes=1", "", {}});
  }
  return report;
}

Kept kept_of(const Report& report) {
  const TemporaryFile file(to_json(report, {}));
  auto kept = read_kept("--baseline", file.path());
  if (!kept) throw std::runtime_error(kept.error().message);
  return *std::move(kept);
}

TEST(Baseline, IsSlowerOrFasterWhereIntervalsLieApart) {
  EXPECT_EQ(judge({10, 12}, {11, 30}, 5), Verdict::Same);
  EXPECT_EQ(judge({10, 12}, {12.5, 14}, 5), Verdict::Same) << "above, but within the tolerance";
  EXPECT_EQ(judge({10, 12}, {12.7, 14}, 5), Verdict::Slower);
  EXPECT_EQ(judge({10, 12}, {12.7, 14}, 10), Verdict::Same);
  EXPECT_EQ(judge({10, 12}, {9, 9.4}, 5), Verdict::Faster);
  EXPECT_EQ(judge({10, 12}, {9, 9.6}, 5), Verdict::Same);
}

TEST(Baseline, ReadsBackWhatARunWrote) {
  const Report report = run_of({{8, 1}, {65536, 40}});
  const Kept kept = kept_of(report);
  EXPECT_THAT(differences(kept.setup, setup_of(report)), IsEmpty());
  ASSERT_EQ(kept.rows.size(), 2U);
  const KeptRow* const row = kept.find(report, report.rows[1].work);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->out_of_place->time_us, 40);
  EXPECT_DOUBLE_EQ(row->in_place->interval_us->low, 39.2);
  EXPECT_DOUBLE_EQ(row->in_place->interval_us->high, 40.8);
  Case other = report.rows[1].work;
  other.kind.dtype = DataType::Int32;
  EXPECT_EQ(kept.find(report, other), nullptr);
}

TEST(Baseline, NamesTheSizesThatAreSlower) {
  const Kept kept = kept_of(run_of({{8, 1}, {65536, 40}, {1 << 20, 300}}));
  Report now = run_of({{8, 1.01}, {65536, 40}, {1 << 20, 150}, {1 << 21, 600}});
  now.rows[1].out_of_place = around(60);
  const Judgement judgement = judge_rows(now, kept);
  EXPECT_THAT(judgement.slower, ElementsAre("64K out of place (1.50 times)"));
  EXPECT_EQ(judgement.compared, 6);
  EXPECT_THAT(judgement.table, HasSubstr("       65536     float     sum    -1  out of place      40.00         39.20.."
                                         "40.80      60.00         58.80..61.20    1.50  SLOWER\n"));
  EXPECT_THAT(judgement.table, HasSubstr("0.50  faster\n"));
  EXPECT_THAT(judgement.table, HasSubstr("1.01  same\n"));
  EXPECT_THAT(judgement.table, HasSubstr("     -  not kept\n"));
  EXPECT_THAT(judgement.table, HasSubstr("# Slower than the baseline : 1 of 6 FAILED\n"));
}

TEST(Baseline, SaysWhereAnotherPlanRan) {
  const Kept kept = kept_of(run_of({{8, 1}}));
  Report now = run_of({{8, 1}});
  now.rows[0].plan = "one_shot lanes=1";
  EXPECT_THAT(judge_rows(now, kept).table, HasSubstr("same; was ring lanes=1\n"));
}

// Calls with --rewrite began behind a barrier then.
TEST(Baseline, IsRefusedWhereRewrittenCallsDidNotBeginTogether) {
  Report report = run_of({{8, 1}});
  report.options.rewrite = true;
  EXPECT_TRUE(check_baseline(kept_of(report), setup_of(report)));
  std::string json = to_json(report, {});
  const std::string_view key = "common_start";
  ASSERT_NE(json.find(key), std::string::npos);
  json.replace(json.find(key), key.size(), "another_key");
  const TemporaryFile file(json);
  const Status status = check_baseline(*read_kept("--baseline", file.path()), setup_of(report));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("here inputs rewritten common start"));
}

TEST(Baseline, IsRefusedUnderOtherCircumstances) {
  const Report report = run_of({{8, 1}});
  const Kept kept = kept_of(report);
  EXPECT_TRUE(check_baseline(kept, setup_of(report)));
  const auto refusal = [&](auto change) {
    Report other = report;
    change(other);
    const Status status = check_baseline(kept, setup_of(other));
    return status ? std::string("accepted") : status.error().message;
  };
  EXPECT_THAT(refusal([](Report& r) { r.world = 4; }), HasSubstr("ranks 2, here 4"));
  EXPECT_THAT(refusal([](Report& r) { r.transport = "tcp"; }), HasSubstr("transport shm, here tcp"));
  EXPECT_THAT(refusal([](Report& r) { r.ranks[0].cpu = "Other"; }), HasSubstr("processor CPU, here Other"));
  EXPECT_THAT(refusal([](Report& r) { r.ranks[1].host = "h2"; }), HasSubstr("hosts 1, here 2"));
  EXPECT_THAT(refusal([](Report& r) { r.options.rewrite = true; }), HasSubstr("inputs rewritten"));
  EXPECT_THAT(refusal([](Report& r) { r.options.memory = MemoryPlace::Shared; }), HasSubstr("here shared memory"));
  EXPECT_THAT(refusal([](Report& r) { r.collective = &row_of("reduce_perf"); }),
              HasSubstr("tool all_reduce_perf, here reduce_perf"));
}

TEST(Baseline, NeedsIntervals) {
  Report report = run_of({{8, 1}});
  report.options.repeats = 1;
  const Status status = check_baseline(kept_of(report), setup_of(report));
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("no intervals; keep one with --json and --repeats 5 or more"));
}

TEST(Kept, FilesThatAreNoResultsAreNamed) {
  const auto message = [](const std::string& path) { return read_kept("--beside", path).error().message; };
  EXPECT_EQ(message("/nonexistent/a.json"), "--beside /nonexistent/a.json: cannot be read");
  for (const char* text : {"", "[]", "{\"results\": 3}", "not json", "{\"a\": 1}"}) {
    const TemporaryFile file(text);
    EXPECT_EQ(message(file.path()), "--beside " + file.path() + ": not a result that a perf tool wrote with --json");
  }
  const TemporaryFile empty("{\"results\": [1, {}, \"x\"]}");
  EXPECT_TRUE(read_kept("--beside", empty.path())) << "odd rows are rows without times";
  const TemporaryFile none("{\"results\": []}");
  EXPECT_EQ(message(none.path()), "--beside " + none.path() + ": it has no rows");
}

TEST(Kept, NumbersMayBeTexts) {
  const TemporaryFile file(R"({"results": [{"size": "8", "type": "float", "redop": "sum", "root": "-1",
    "out_of_place": {"time": "2.5", "alg_bw": "0.1", "bus_bw": "0.2"}}]})");
  const auto kept = read_kept("--beside", file.path());
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->rows[0].bytes, 8U);
  EXPECT_EQ(kept->rows[0].root, -1);
  EXPECT_EQ(kept->rows[0].out_of_place->time_us, 2.5);
  EXPECT_FALSE(kept->rows[0].in_place);
}

// The kept bandwidth is absurdly large: a scale that reaches up to it would have no end.
TEST(Kept, NumbersThatNoMachineMeasuresAreNone) {
  for (const char* const most : {"1e308", "-1e308", "1e16"}) {
    const TemporaryFile file(fmt::format(R"({{"results": [{{"size": 8, "type": "float", "redop": "sum", "root": -1,
      "out_of_place": {{"time": 2.5, "alg_bw": {0}, "bus_bw": {0}}}}}]}})",
                                         most));
    const auto kept = read_kept("--beside", file.path());
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->rows[0].out_of_place->bus_gbps, 0);
    EXPECT_THAT(to_html(run_of({{8, 1}, {65536, 40}}), &*kept), HasSubstr("<svg"));
  }
}

TEST(Html, DrawsAnotherRunBesideThisOne) {
  Report other = run_of({{8, 1}, {65536, 20}});
  other.transport = "tcp";
  const Kept kept = kept_of(other);
  const Report now = run_of({{8, 1}, {65536, 40}});
  const std::string alone = to_html(now);
  const std::string page = to_html(now, &kept);
  const std::string label = kept.label(setup_of(now));
  EXPECT_THAT(label, testing::EndsWith(".json (tcp)"));
  EXPECT_THAT(page, HasSubstr(label + ": out of place"));
  EXPECT_THAT(page, HasSubstr(label + ": in place"));
  EXPECT_THAT(page, HasSubstr("class=\"s1 beside\""));
  EXPECT_THAT(page, HasSubstr("<td class=\"bad\">2.00</td>"));
  EXPECT_THAT(page, HasSubstr("transport tcp, here shm"));
  EXPECT_THAT(page, HasSubstr("class=\"spread\"")) << "intervals";
  EXPECT_THAT(alone, Not(HasSubstr("class=\"s1 beside\"")));
  for (const char* unwanted : {"nan", "inf", "http:", "<script"}) EXPECT_THAT(page, Not(HasSubstr(unwanted)));
}

// The tests below run the whole tool, with two ranks as threads of this process.

struct Ended {
  int code = 0;
  std::string output;
  std::string errors;
};

Ended run(std::vector<std::string> more) {
  std::vector<std::string> words{"all_reduce_perf", "-t", "2", "--sizes", "1K", "-n", "4", "--no-pin"};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_tool("all_reduce_perf", static_cast<int>(arguments.size()), arguments.data());
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

// Returns the text of the kept file with each time multiplied by `factor`.
std::string scaled(const std::string& path, double factor) {
  std::ifstream file(path);
  auto json = nlohmann::ordered_json::parse(file);
  for (auto& row : json["results"]) {
    for (const char* place : {"out_of_place", "in_place"}) {
      row[place]["time"] = row[place]["time"].get<double>() * factor;
      for (const char* end : {"low_us", "high_us"}) {
        row["wreath"][place][end] = row["wreath"][place][end].get<double>() * factor;
      }
    }
  }
  return json.dump();
}

TEST(Tool, EndsWithOneWhereItIsSlowerThanItsBaseline) {
  const TemporaryFile kept;
  ASSERT_EQ(run({"--repeats", "5", "--json", kept.path()}).code, 0);
  const TemporaryFile slow(scaled(kept.path(), 1e4));
  const Ended faster = run({"--baseline", slow.path()});
  EXPECT_EQ(faster.code, 0) << faster.errors;
  EXPECT_THAT(faster.output, HasSubstr("faster"));
  EXPECT_THAT(faster.errors, IsEmpty()) << "no progress where there is no terminal";
  const TemporaryFile fast(scaled(kept.path(), 1e-4));
  const Ended slower = run({"--baseline", fast.path()});
  EXPECT_EQ(slower.code, 1);
  EXPECT_THAT(slower.output, HasSubstr("SLOWER"));
  EXPECT_THAT(slower.errors, StartsWith("wreath: error: all_reduce_perf: slower than --baseline " + fast.path() +
                                        " at 1K out of place ("));
}

TEST(Tool, RefusesABaselineBeforeItMeasures) {
  const TemporaryFile kept;
  ASSERT_EQ(run({"--repeats", "5", "--json", kept.path()}).code, 0);
  const Ended rewriting = run({"--baseline", kept.path(), "--rewrite"});
  EXPECT_EQ(rewriting.code, 2);
  EXPECT_THAT(rewriting.errors, HasSubstr("--baseline " + kept.path() + ": kept under other circumstances: timing"));
  EXPECT_THAT(rewriting.output, IsEmpty());
  EXPECT_EQ(run({"--baseline", "/nonexistent"}).code, 2);
  const Ended others = run({"--baseline", kept.path(), "-d", "half"});
  EXPECT_EQ(others.code, 2);
  EXPECT_THAT(others.errors, HasSubstr("it has none of this run's sizes, dtypes, operators and roots"));
}

}  // namespace
}  // namespace wreath::perf
