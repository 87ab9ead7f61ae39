// The results of a run as data, and the four ways to write them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/base/statistics.hpp"
#include "perf/common/bench.hpp"
#include "perf/common/options.hpp"

namespace wreath::perf {

struct Kept;

// A rank, as the list at the top shows it.
struct RankLine {
  int rank = 0;
  int pid = 0;
  std::string host;
  int core = -1;  // it is pinned to; -1: to none
  std::string cpu;
};

// One direction of a row: how long, how fast, how wrong.
struct Measurement {
  double time_us = 0;
  double algorithm_gbps = 0;
  double bus_gbps = 0;
  std::optional<std::uint64_t> wrong;    // nothing: not checked
  std::optional<Statistics> iterations;  // -I
  std::vector<double> iterations_us;
  std::vector<double> samples_us;       // --repeats: the time of each; time_us is their median
  std::optional<Interval> interval_us;  // that holds the median with 90 %, where there are samples enough
  int calls = 0;                        // that were timed
};

struct ReportRow {
  Case work;
  Measurement out_of_place;
  std::optional<Measurement> in_place;  // nothing: the collective cannot be, or --place out
  std::string plan;                     // "two_shot lanes=1 tile=256K order=canonical"
  std::string timestamp;
  std::optional<double> limit_us;  // the machine's, for this size
};

struct Report {
  const CollectiveRow* collective = nullptr;
  Options options;
  int world = 1;
  std::vector<RankLine> ranks;
  std::string transport;       // of rank 0's links: "shm", "shm+tcp"
  std::string transport_note;  // why not a better one: "(inproc: ...)"; may be empty
  std::string commit;          // empty: unknown
  double clock_ns = 0;         // what one look at the clock costs
  std::string limit_name;      // what limit_us is; empty: not measured
  double flag_ns = 0;          // a flag's way from core to core; 0: not measured
  std::vector<std::string> warnings;
  std::string start_time;
  std::string end_time;
  std::vector<ReportRow> rows;
  std::uint64_t out_of_bounds = 0;

  std::uint64_t wrong() const;
  double average_bus_gbps() const;  // over both directions of all rows, as nccl-tests does
  bool okay() const { return wrong() == 0 && out_of_bounds == 0; }
};

// What a row says of its operator and root: "none" and -1 where the collective has none.
std::string_view shown_op(const Report& report, const Case& work);
Rank shown_root(const Report& report, const Case& work);

// Bandwidths and statistics from a combined Timing.
Measurement measurement_of(const Report& report, const Case& work, const Timing& timing);

// One row of the same case measured over and over (--repeats): medians, intervals, all that is wrong.
ReportRow repeated(const Report& report, const std::vector<ReportRow>& rows);

// `order=ring` and the like stay, `order=canonical` goes: what the table's last column says.
std::string plan_note(const std::string& plan);

// The table that people read, in nccl-tests' columns and the algorithm; with -I, --repeats, --limits and -S more.
std::string table_head(const Report& report);
std::string table_row(const Report& report, const ReportRow& row);
std::string table_foot(const Report& report);

std::string to_json(const Report& report, const std::vector<std::string>& environment);
std::string to_csv(const Report& report);
// `beside`: a result that is drawn in and put beside each row; may be null.
std::string to_html(const Report& report, const Kept* beside = nullptr);

}  // namespace wreath::perf
