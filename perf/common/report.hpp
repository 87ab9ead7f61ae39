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

// A rank in the list at the top of a report.
struct RankLine {
  int rank = 0;
  int pid = 0;
  std::string host;
  // The core to which the rank is pinned; -1: none.
  int core = -1;
  std::string cpu;
};

// The measurement of one direction of a row: time, bandwidths and wrong elements.
struct Measurement {
  double time_us = 0;
  double algorithm_gbps = 0;
  double bus_gbps = 0;
  std::optional<std::uint64_t> wrong;    // nothing: not checked
  std::optional<Statistics> iterations;  // -I
  std::vector<double> iterations_us;
  // The time of each repeat (--repeats). Their median is time_us.
  std::vector<double> samples_us;
  // The interval that holds the median with 90 %, where there are enough samples.
  std::optional<Interval> interval_us;
  int calls = 0;      // timed calls
  Counters counters;  // --counters: of all repeats
};

// The time of the peer (--peer) out of place, in turns with the row's.
struct PeerTime {
  double time_us = 0;  // the median of the repeats
  // The ratio of the peer's time to this library's: the median of the repeats' ratios.
  double ratio = 0;
  std::string plan;  // such as "NCCL 2.30.7"
  std::vector<double> samples_us = {};
};

struct ReportRow {
  Case work;
  Measurement out_of_place;
  // Nothing where the collective cannot be in place, or with --place out.
  std::optional<Measurement> in_place;
  std::string plan;  // "two_shot lanes=1 tile=256K order=canonical"
  std::string timestamp;
  std::optional<double> limit_us;       // the machine's limit for this size
  std::optional<double> slots_us = {};  // as many bytes through slots, by bare loops
  std::optional<PeerTime> peer = {};
};

struct Report {
  const CollectiveRow* collective = nullptr;
  Options options;
  int world = 1;
  std::vector<RankLine> ranks;
  std::string transport;  // of rank 0's links: "shm", "shm+tcp"
  // The reason against a better transport, such as "(inproc: ...)"; may be empty.
  std::string transport_note;
  std::string commit;  // empty: unknown
  // The time of one reading of the clock.
  double clock_ns = 0;
  bool starts_together = false;  // with --rewrite: all ranks begin a call at one instant
  // The kind of limit_us; empty: not measured.
  std::string limit_name;
  // Rows of some sizes have slots_us.
  bool has_slots = false;
  // The time of a flag from core to core; 0: not measured.
  double flag_ns = 0;
  // --counters: the counts that rows have, of the transports of rank 0's links.
  Counters counters;
  std::vector<std::string> warnings;
  std::string start_time;
  std::string end_time;
  std::vector<ReportRow> rows;
  std::uint64_t out_of_bounds = 0;

  std::uint64_t wrong() const;
  // Returns the average over both directions of all rows, as nccl-tests does.
  double average_bus_gbps() const;
  bool okay() const { return wrong() == 0 && out_of_bounds == 0; }
};

// Returns the operator of a row; "none" where the collective has none.
std::string_view shown_op(const Report& report, const Case& work);
// Returns the root of a row; -1 where the collective has none.
Rank shown_root(const Report& report, const Case& work);

// Computes bandwidths and statistics from a combined Timing.
Measurement measurement_of(const Report& report, const Case& work, const Timing& timing);

// Joins the rows of one case that was measured repeatedly (--repeats): medians, intervals, and all wrong elements.
ReportRow repeated(const Report& report, const std::vector<ReportRow>& rows);

// Returns the text of the table's last column: texts such as `order=ring` stay, and `order=canonical` is left out.
std::string plan_note(const std::string& plan);

// The table for people, with nccl-tests' columns and the algorithm. It has more with -I, --repeats, --limits and -S.
std::string table_head(const Report& report);
std::string table_row(const Report& report, const ReportRow& row);
std::string table_foot(const Report& report);

std::string to_json(const Report& report, const std::vector<std::string>& environment);
std::string to_csv(const Report& report);
// Returns the page. `beside` is a result that is drawn in and shown beside each row; may be null.
std::string to_html(const Report& report, const Kept* beside = nullptr);

}  // namespace wreath::perf
