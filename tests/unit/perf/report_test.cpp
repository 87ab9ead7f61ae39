// A known report gives the expected table, JSON, CSV and HTML.
#include "perf/common/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "perf/common/plot.hpp"

namespace wreath::perf {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Measurement measured(double time_us, double gbps, std::uint64_t wrong) {
  Measurement m;
  m.time_us = time_us;
  m.algorithm_gbps = gbps;
  m.bus_gbps = gbps * 1.5;
  m.wrong = wrong;
  return m;
}

Report sample() {
  Report report;
  report.collective = &row_of("all_reduce_perf");
  report.world = 4;
  report.options.command = {"all_reduce_perf", "--ranks", "4"};
  report.options.sizes = {8, 1 << 20, 1 << 20, 2};
  report.ranks = {{0, 101, "h1", 0, "CPU <model> & more"}, {1, 102, "h1", -1, "CPU"}};
  report.transport = "shm";
  report.start_time = "2026-01-01 00:00:00";
  report.end_time = "2026-01-01 00:00:01";
  report.rows.push_back({{8, 2, 2, {DataType::Float32}},
                         measured(0.05, 0.16, 0),
                         measured(12.345, 0.01, 0),
                         "one_shot lanes=1 tile=16K order=canonical",
                         "2026-01-01 00:00:00",
                         {}});
  report.rows.push_back({{1 << 20, 1 << 18, 1 << 18, {DataType::Int32}},
                         measured(123456.7, 8.5, 0),
                         measured(98.5, 10.625, 0),
                         "ring lanes=2 tile=256K order=ring",
                         "2026-01-01 00:00:01",
                         {}});
  return report;
}

TEST(Table, RowsAreNcclTestsColumnsAndTheAlgorithm) {
  const Report report = sample();
  EXPECT_EQ(table_row(report, report.rows[0]),
            "           8             2     float     sum      -1     0.05    0.16    0.24       0    12.35    0.01"
            "    0.01       0  one_shot lanes=1 tile=16K\n");
  EXPECT_EQ(table_row(report, report.rows[1]),
            "     1048576        262144     int32     sum      -1   123457    8.50   12.75       0    98.50   10.62"
            "   15.94       0  ring lanes=2 tile=256K order=ring\n");
}

TEST(Table, HeadLinesUpWithRows) {
  const Report report = sample();
  const std::string head = table_head(report);
  EXPECT_THAT(head, HasSubstr("# Collective test starting: all_reduce_perf\n"));
  EXPECT_THAT(head, HasSubstr("# nThread 1 nGpus 0 minBytes 8 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: "
                              "20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n"));
  EXPECT_THAT(head, HasSubstr("#  Rank  0 Group  0 Pid    101 on         h1 device  0 [core 0] CPU <model> & more\n"));
  EXPECT_THAT(head, HasSubstr("#       size         count      type   redop    root     time   algbw   busbw  #wrong"
                              "     time   algbw   busbw  #wrong  algorithm\n"));
  const std::string names = head.substr(head.rfind('\n', head.find("#wrong")) + 1);
  const std::string row = table_row(report, report.rows[0]);
  EXPECT_EQ(names.find("busbw") + 5, row.find("0.24") + 4);
}

TEST(Table, FootCountsWhatIsWrong) {
  Report report = sample();
  EXPECT_THAT(table_foot(report), HasSubstr("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : "));
  EXPECT_THAT(table_foot(report), HasSubstr("# Collective test concluded: all_reduce_perf\n"));
  EXPECT_TRUE(report.okay());
  report.rows[0].in_place->wrong = 3;
  EXPECT_FALSE(report.okay());
  EXPECT_THAT(table_foot(report), HasSubstr("Wrong values         : 3 FAILED"));
}

TEST(Table, FootSaysWhatWasChecked) {
  Report report = sample();
  const std::string before =
      "# Checked              : all of 1 call before the timed ones, and of the last of each half of "
      "those; of ";
  EXPECT_THAT(table_foot(report), HasSubstr(before + "each other one byte\n#   in place           : all after 16 timed "
                                                     "calls at most, each on the results of the one before\n"));
  report.collective = &row_of("all_gather_perf");
  EXPECT_THAT(
      table_foot(report),
      HasSubstr(before + "each other one byte\n#   in place           : all of the last timed call; of each other "
                         "one byte\n"));
  report.options.memory = MemoryPlace::HostDevice;
  report.options.only_out_of_place = true;
  EXPECT_THAT(table_foot(report), AllOf(HasSubstr(before + "the others nothing\n"), Not(HasSubstr("in place"))));
  report.options.check = 0;
  EXPECT_THAT(table_foot(report), HasSubstr("# Checked              : nothing (-c 0)\n"));
  report.collective = &row_of("barrier_perf");
  EXPECT_THAT(table_foot(report), Not(HasSubstr("Checked")));
}

TEST(Table, LinesUpForCollectivesWithoutOperatorRootOrPlace) {
  Report report = sample();
  const std::string full = table_row(report, report.rows[0]);
  report.collective = &row_of("alltoall_perf");
  report.rows[0].in_place.reset();
  const std::string row = table_row(report, report.rows[0]);
  EXPECT_THAT(row, HasSubstr("     float    none      -1  "));
  EXPECT_THAT(row, HasSubstr("    N/A     N/A     N/A     N/A  one_shot"));
  EXPECT_EQ(row.find("one_shot"), full.find("one_shot"));
  report.collective = &row_of("reduce_perf");
  report.rows[0].work.kind.root = 2;
  EXPECT_THAT(table_row(report, report.rows[0]), HasSubstr("     float     sum       2  "));
  EXPECT_THAT(to_json(report, {}), HasSubstr("\"in_place\": null"));
  EXPECT_THAT(to_html(report), Not(HasSubstr("nan")));
}

TEST(Table, UncheckedRowsSaySo) {
  Report report = sample();
  report.rows[0].out_of_place.wrong.reset();
  EXPECT_THAT(table_row(report, report.rows[0]), HasSubstr("0.24     N/A"));
}

TEST(Report, BusBandwidthOfAllReduceIsTwiceTheOthersShare) {
  const Report report = sample();
  Timing timing;
  timing.time_us = 1000;
  const Measurement m = measurement_of(report, {1'000'000, 250'000, 250'000, {}}, timing);
  EXPECT_DOUBLE_EQ(m.algorithm_gbps, 1.0);
  EXPECT_DOUBLE_EQ(m.bus_gbps, 1.5);
}

TEST(Report, BusBandwidthFollowsNcclTests) {
  const auto factor = [](const char* program) { return row_of(program).bus_factor(4); };
  for (const char* one : {"broadcast_perf", "reduce_perf", "sendrecv_perf"}) EXPECT_DOUBLE_EQ(factor(one), 1.0);
  for (const char* share : {"all_gather_perf", "reduce_scatter_perf", "alltoall_perf", "gather_perf", "scatter_perf"}) {
    EXPECT_DOUBLE_EQ(factor(share), 0.75) << share;
  }
}

TEST(Report, HypercubeCountsWhatComesFromOthersInBothBandwidths) {
  Report report = sample();
  report.collective = &row_of("hypercube_perf");
  Timing timing;
  timing.time_us = 1000;
  const Measurement m = measurement_of(report, {1'000'000, 250'000, 62'500, {}}, timing);
  EXPECT_DOUBLE_EQ(m.algorithm_gbps, 0.75);
  EXPECT_DOUBLE_EQ(m.bus_gbps, 0.75);
}

TEST(Table, RepeatedRowsHaveTheEndsOfTheInterval) {
  Report report = sample();
  report.options.repeats = 8;
  std::vector<ReportRow> rows;
  for (int i = 1; i <= 8; ++i) {
    rows.push_back(report.rows[1]);
    rows.back().out_of_place.time_us = 100 * i;
    rows.back().out_of_place.wrong = i == 3 ? 2 : 0;
  }
  const ReportRow row = repeated(report, rows);
  EXPECT_EQ(row.out_of_place.wrong, 2U);
  EXPECT_EQ(table_row(report, row),
            "     1048576        262144     int32     sum      -1   450.00    2.33    3.50       2   200.00   700.00"
            "    98.50   10.65   15.97       0    98.50    98.50  ring lanes=2 tile=256K order=ring\n");
  const std::string head = table_head(report);
  EXPECT_THAT(head, HasSubstr("#       size         count      type   redop    root     time   algbw   busbw  #wrong"
                              "      low     high     time   algbw   busbw  #wrong      low     high  algorithm\n"));
  EXPECT_THAT(head, HasSubstr("# Repeats 8: all sizes in turn; times are medians\n"));
}

// The ratio is the median of the repeats' ratios, and not the ratio of the medians.
TEST(Table, ShowsThePeerOfEachRow) {
  Report report = sample();
  report.options.peer = "nccl";
  report.options.repeats = 3;
  std::vector<ReportRow> rows(3, report.rows[0]);
  rows[0].peer = PeerTime{10, 2, "NCCL 2.30.7"};
  rows[1].peer = PeerTime{30, 0.5, "NCCL 2.30.7"};
  rows[2].peer = PeerTime{20, 4, "NCCL 2.30.7"};
  report.rows = {repeated(report, rows)};
  EXPECT_THAT(table_row(report, report.rows[0]), HasSubstr("    20.00    2.000  one_shot lanes=1 tile=16K\n"));
  const std::string head = table_head(report);
  EXPECT_THAT(head, HasSubstr("     peer    ratio  algorithm\n"));
  EXPECT_THAT(head, HasSubstr("# Peer: nccl, in turns, out of place"));
  const auto json = nlohmann::json::parse(to_json(report, {}));
  EXPECT_EQ(json["wreath"]["peer"], "nccl");
  EXPECT_EQ(
      json["results"][0]["wreath"]["peer"],
      nlohmann::json({{"time", 20.0}, {"ratio", 2.0}, {"plan", "NCCL 2.30.7"}, {"samples_us", {10.0, 30.0, 20.0}}}));
}

TEST(Table, ShowsCountersForEachMebibyte) {
  Report report = sample();
  report.options.counters = true;
  report.transport = "shm+verbs";
  report.counters = {WireCounts{"verbs", 0, {{"doorbells", 0}, {"registrations", 0}}}};
  ReportRow& row = report.rows[0];
  row.out_of_place.counters = {WireCounts{"verbs", 8 << 20, {{"doorbells", 30}, {"registrations", 2}}}};
  report.options.repeats = 2;
  row = repeated(report, {row, row});
  EXPECT_THAT(table_row(report, row), HasSubstr("       3.75           0.25  one_shot lanes=1 tile=16K\n"));
  const std::string head = table_head(report);
  EXPECT_THAT(head, HasSubstr("  doorbells  registrations  algorithm\n"));
  EXPECT_THAT(head, HasSubstr("     (/MiB)         (/MiB)\n"));
  EXPECT_THAT(head, HasSubstr("of their messages: verbs; not counted: shm\n"));
  EXPECT_THAT(table_row(report, report.rows[1]), HasSubstr("          -              -  ring lanes=2"));
  const auto json = nlohmann::json::parse(to_json(report, {}));
  EXPECT_EQ(json["wreath"]["counters"], "verbs; not counted: shm");
  EXPECT_EQ(json["results"][0]["wreath"]["counters"]["out_of_place"]["verbs"],
            nlohmann::json({{"message_bytes", 16 << 20},
                            {"doorbells", 60},
                            {"registrations", 4},
                            {"per_mib", {{"doorbells", 3.75}, {"registrations", 0.25}}}}));
  EXPECT_EQ(json["results"][0]["wreath"]["counters"]["in_place"], nlohmann::json::object());
}

// Ranks whose links over a transport sent nothing have counts that no number of bytes divides.
TEST(Table, NamesCountersByTheirTransports) {
  Report report = sample();
  report.options.counters = true;
  report.transport = "tcp+verbs";
  report.counters = {WireCounts{"tcp", 0, {{"sends", 0}}}, WireCounts{"verbs", 0, {{"puts", 0}}}};
  report.rows[0].out_of_place.counters = {WireCounts{"tcp", 0, {{"sends", 3}}},
                                          WireCounts{"verbs", 2 << 20, {{"puts", 5}}}};
  EXPECT_THAT(table_head(report), HasSubstr("  tcp.sends  verbs.puts  algorithm\n"));
  EXPECT_THAT(table_head(report), HasSubstr("of their messages: tcp, verbs\n"));
  EXPECT_THAT(table_row(report, report.rows[0]), HasSubstr("          -        2.50  one_shot lanes=1 tile=16K\n"));
  const auto json = nlohmann::json::parse(to_json(report, {}));
  const auto& counted = json["results"][0]["wreath"]["counters"]["out_of_place"];
  EXPECT_EQ(counted["tcp"]["per_mib"]["sends"], nlohmann::json(nullptr));
  EXPECT_EQ(counted["verbs"]["per_mib"]["puts"], 2.5);
}

TEST(Table, SaysOfWhatNothingIsCounted) {
  Report report = sample();
  EXPECT_THAT(table_head(report), Not(HasSubstr("Counters")));
  EXPECT_FALSE(nlohmann::json::parse(to_json(report, {}))["wreath"].contains("counters"));
  report.options.counters = true;
  const std::string row = table_row(report, report.rows[0]);
  EXPECT_THAT(table_head(report), HasSubstr("of their messages: not counted: shm\n"));
  EXPECT_THAT(row, HasSubstr("       0  one_shot lanes=1 tile=16K\n"));
}

TEST(Json, NumbersAreNumbersUnderNcclTestsKeys) {
  const auto json = nlohmann::json::parse(to_json(sample(), {}));
  EXPECT_EQ(json["version"], 3);
  EXPECT_TRUE(json["config"]["blocking_collectives"].is_boolean());
  EXPECT_TRUE(json["config"]["minimum_bytes"].is_number_unsigned());
  const auto& row = json["results"][0];
  for (const char* key : {"size", "count", "root"}) EXPECT_TRUE(row[key].is_number_integer()) << key;
  for (const char* key : {"time", "alg_bw", "bus_bw"}) EXPECT_TRUE(row["out_of_place"][key].is_number()) << key;
  EXPECT_TRUE(row["in_place"]["nwrong"].is_number());
  EXPECT_EQ(row["wreath"]["plan"]["algorithm"], "one_shot");
  EXPECT_EQ(json["results"][1]["wreath"]["plan"]["order"], "ring");
  EXPECT_EQ(json["wreath"]["transport"], "shm");
  EXPECT_TRUE(json["out_of_bounds"]["okay"].is_boolean());
  std::set<std::string> keys;
  for (const auto& item : json.items()) keys.insert(item.key());
  EXPECT_EQ(keys, (std::set<std::string>{"version", "start_time", "args", "env", "nccl_version", "config", "results",
                                         "out_of_bounds", "average_bus_bandwidth", "errors", "wreath", "end_time"}));
}

TEST(Json, ShowsOnlyOurVariablesAndNoSecret) {
  const std::string text = to_json(sample(), {"HOME=/home/u", "AWS_SECRET=abc", "WREATH_DEBUG=INFO", "NCCL_ALGO=Ring",
                                              "WREATH_KEY=0123456789abcdef", "WREATH_KEY_FILE=/secret/place"});
  EXPECT_THAT(text, HasSubstr("WREATH_DEBUG=INFO"));
  EXPECT_THAT(text, HasSubstr("NCCL_ALGO=Ring"));
  EXPECT_THAT(text, HasSubstr("WREATH_KEY=(not shown)"));
  for (const char* hidden : {"HOME", "AWS", "0123456789abcdef", "/secret/place"}) {
    EXPECT_THAT(text, Not(HasSubstr(hidden)));
  }
}

TEST(Csv, HasOneLineOfEqualFieldsPerRow) {
  const std::string text = to_csv(sample());
  std::istringstream lines(text);
  std::size_t count = 0;
  std::size_t fields = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto commas = static_cast<std::size_t>(std::count(line.begin(), line.end(), ','));
    if (count == 0) fields = commas;
    EXPECT_EQ(commas, fields) << line;
  }
  EXPECT_EQ(count, 3U);
}

TEST(Html, IsOneSelfContainedEscapedPage) {
  Report report = sample();
  report.limit_name = "shared memory limit";
  report.rows[0].limit_us = 0.04;
  report.rows[1].limit_us = 50;
  const std::string page = to_html(report);
  for (const char* outside : {"http:", "https:", "<script", "<link", "@import", "url(", " src="}) {
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
  }
  EXPECT_THAT(page, HasSubstr("CPU &lt;model&gt; &amp; more"));
  EXPECT_THAT(page, HasSubstr("class=\"limit\""));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
}

TEST(Html, SurvivesEmptyAndZeroResults) {
  Report report = sample();
  report.world = 1;
  report.rows.resize(1);
  report.rows[0].work.bytes = 0;
  report.rows[0].out_of_place = measured(0, 0, 0);
  report.rows[0].in_place = measured(0, 0, 0);
  EXPECT_THAT(to_html(report), Not(HasSubstr("nan")));
  report.rows.clear();
  EXPECT_THAT(to_html(report), HasSubstr("</html>"));
}

TEST(Html, OfABarrierHasNoBandwidth) {
  Report report = sample();
  report.collective = &row_of("barrier_perf");
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("Shortest time"));
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
  EXPECT_THAT(page, Not(HasSubstr("bus bandwidth")));
}

TEST(Plot, PutsHigherValuesHigher) {
  Plot plot{"t", "u", {{"a", {{8, 1, "one"}, {16, 100, "two"}}, false}}};
  const std::string svg = plot_svg(plot);
  const auto y_after = [&](const char* title) {
    const auto at = svg.rfind("cy=\"", svg.find(title));
    return std::stod(svg.substr(at + 4));
  };
  EXPECT_GT(y_after("one"), y_after("two"));
}

}  // namespace
}  // namespace wreath::perf
