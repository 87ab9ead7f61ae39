// Prints the table on stdout, and computes the derived values of rows and reports.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "perf/base/pattern.hpp"
#include "perf/common/report.hpp"
#include "perf/limits/shm.hpp"

namespace wreath::perf {
namespace {

// Returns at most `width` characters, with as many of two decimals as fit (nccl-tests' rule).
std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

struct Column {
  std::string_view name;
  std::string_view unit;
};
constexpr std::array kPerIteration{Column{"i_min", "(us)"}, Column{"i_max", "(us)"}, Column{"i_p99", "(us)"},
                                   Column{"i_cv%", "(%)"}};
constexpr std::array kInterval{Column{"low", "(us)"}, Column{"high", "(us)"}};

// Returns the columns behind nccl-tests' four columns of each direction.
std::span<const Column> extra_columns(const Report& report) {
  if (report.options.per_iteration) return kPerIteration;
  if (report.options.repeats > 1) return kInterval;
  return {};
}

std::string extra_values(const Report& report, const Measurement& m) {
  std::vector<double> values;
  if (report.options.per_iteration && m.iterations) {
    values = {m.iterations->minimum, m.iterations->maximum, m.iterations->p99, m.iterations->variation_percent()};
  } else if (report.options.repeats > 1) {
    const Interval spread = m.samples_us.empty() ? Interval{m.time_us, m.time_us} : median_interval(m.samples_us);
    values = {spread.low, spread.high};
  }
  std::string text;
  for (const double value : values) text += "  " + fitted(value, 7);
  return text;
}

std::string measured(const Report& report, const std::optional<Measurement>& maybe) {
  if (!maybe) {
    std::string text = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
    for (std::size_t i = 0; i < extra_columns(report).size(); ++i) text += fmt::format("  {:>7}", "N/A");
    return text;
  }
  const Measurement& m = *maybe;
  std::string text =
      fmt::format("  {}  {}  {}  ", fitted(m.time_us, 7), fitted(m.algorithm_gbps, 6), fitted(m.bus_gbps, 6));
  text += m.wrong ? fmt::format("{:>6g}", static_cast<double>(*m.wrong)) : "   N/A";
  return text + extra_values(report, m);
}

// Returns the columns of one direction for the names or the units of the head.
std::string measured_head(const Report& report, bool names) {
  std::string text = names ? fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "time", "algbw", "busbw", "#wrong")
                           : fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  for (const Column& column : extra_columns(report)) {
    text += fmt::format("  {:>7}", names ? column.name : column.unit);
  }
  return text;
}

// Returns the width of a column of counts.
std::size_t width_of(const std::string& name) { return std::max<std::size_t>(name.size(), 7); }

std::string counter_heads(const Report& report, bool names) {
  std::string text;
  for (const std::string& name : column_names(report.counters)) {
    text += fmt::format("  {:>{}}", names ? name : "(/MiB)", width_of(name));
  }
  return text;
}

std::string counter_values(const Report& report, const Measurement& measured) {
  std::vector<std::string> values;
  for (const WireCounts& entry : measured.counters) {
    for (const WireCounts::Count& count : entry.counts) {
      const auto value = per_mebibyte(entry, count);
      values.push_back(value ? fitted(*value, 7) : "-");
    }
  }
  std::string text;
  const std::vector<std::string> names = column_names(report.counters);
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("  {:>{}}", i < values.size() ? values[i] : "-", width_of(names[i]));
  }
  return text;
}

std::string column_heads(const Report& report) {
  const bool stamps = report.options.timestamps;
  const bool limit = !report.limit_name.empty();
  std::string over = "           out-of-place                       in-place          ";
  if (const std::size_t extra = extra_columns(report).size(); extra > 0) {
    const std::string_view what = report.options.per_iteration ? "per-iteration" : "90% interval";
    over = fmt::format("{:^{}}", fmt::format("out-of-place (+ {})", what), 33 + 9 * extra);
    over += fmt::format("{:^{}}", fmt::format("in-place (+ {})", what), 33 + 9 * extra);
  }
  std::string text = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}\n", "", "", "", "", "", over);
  for (const bool names : {true, false}) {
    text += names ? fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root")
                  : fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
    text += measured_head(report, names) + measured_head(report, names);
    if (limit) text += fmt::format("  {:>7}", names ? "limit" : "(us)");
    if (report.has_slots) text += fmt::format("  {:>7}", names ? "slots" : "(us)");
    if (!report.options.peer.empty())
      text += fmt::format("  {:>7}  {:>7}", names ? "peer" : "(us)", names ? "ratio" : "");
    text += counter_heads(report, names);
    if (stamps) text += fmt::format("  {:>19}", names ? "timestamp" : "");
    text += names ? "  algorithm\n" : "\n";
  }
  return text;
}

// Returns the lines that say which elements are checked (bench.hpp).
std::string checked_lines(const Report& report) {
  const Options& o = report.options;
  if (report.collective->has(kNoData)) return {};
  const auto line = [](std::string_view name, const std::string& text) {
    return fmt::format("# {:<20} : {}\n", name, text);
  };
  if (o.check == 0) return line("Checked", "nothing (-c 0)");
  const std::string others = streams(o.memory) ? "of the others nothing" : "of each other one byte";
  std::string text = line("Checked", fmt::format("all of {} call{} before the timed ones, and of the last of each half "
                                                 "of those; {}",
                                                 o.check, o.check == 1 ? "" : "s", others));
  const bool in_place = !o.only_out_of_place && !report.collective->has(kNothingToReuse);
  if (!in_place) return text;
  const std::string combined =
      fmt::format("all after {} timed calls at most, each on the results of the one before", kMostCallsInPlace);
  return text + line("  in place", report.collective->combines() ? combined : "all of the last timed call; " + others);
}

}  // namespace

std::uint64_t Report::wrong() const {
  std::uint64_t sum = 0;
  for (const ReportRow& row : rows) {
    sum += row.out_of_place.wrong.value_or(0) + (row.in_place ? row.in_place->wrong.value_or(0) : 0);
  }
  return sum;
}

double Report::average_bus_gbps() const {
  double sum = 0;
  int measured = 0;
  for (const ReportRow& row : rows) {
    sum += row.out_of_place.bus_gbps + (row.in_place ? row.in_place->bus_gbps : 0);
    measured += row.in_place ? 2 : 1;
  }
  return measured == 0 ? 0 : sum / measured;
}

std::string_view shown_op(const Report& report, const Case& work) {
  return report.collective->combines() ? name(work.kind.op) : "none";
}

Rank shown_root(const Report& report, const Case& work) { return report.collective->rooted() ? work.kind.root : -1; }

Measurement measurement_of(const Report& report, const Case& work, const Timing& timing) {
  Measurement m;
  m.time_us = timing.time_us;
  m.algorithm_gbps = timing.time_us > 0 ? static_cast<double>(work.bytes) / (timing.time_us * 1e3) : 0;
  m.bus_gbps = m.algorithm_gbps * report.collective->bus_factor(report.world);
  if (report.collective->has(kCountsOthers)) m.algorithm_gbps = m.bus_gbps;
  if (report.options.check > 0) m.wrong = timing.wrong;
  const auto skip = static_cast<std::size_t>(report.options.per_iteration_skip);
  if (timing.iterations_us.size() > skip) m.iterations = summarize(std::span(timing.iterations_us).subspan(skip));
  m.iterations_us = timing.iterations_us;
  m.calls = timing.iterations;
  m.counters = timing.counters;
  return m;
}

ReportRow repeated(const Report& report, const std::vector<ReportRow>& rows) {
  ReportRow result = rows.back();
  if (rows.size() == 1) return result;
  const auto merge = [&](auto direction, Measurement& merged) {
    Timing timing;
    std::vector<double> samples;
    for (const ReportRow& row : rows) {
      const Measurement& each = *direction(row);
      samples.push_back(each.time_us);
      timing.wrong += each.wrong.value_or(0);
      add_counters(timing.counters, each.counters);
    }
    timing.time_us = median(samples);
    timing.iterations = merged.calls;
    merged = measurement_of(report, result.work, timing);
    if (samples.size() >= kRoundsOfAnInterval) merged.interval_us = median_interval(samples);
    merged.samples_us = std::move(samples);
  };
  merge([](const ReportRow& row) { return &row.out_of_place; }, result.out_of_place);
  if (result.in_place) merge([](const ReportRow& row) { return &*row.in_place; }, *result.in_place);
  if (!result.peer) return result;
  std::vector<double> ratios;
  for (const ReportRow& row : rows) {
    result.peer->samples_us.push_back(row.peer->time_us);
    ratios.push_back(row.peer->ratio);
  }
  result.peer->time_us = median(result.peer->samples_us);
  result.peer->ratio = median(ratios);
  return result;
}

std::string plan_note(const std::string& plan) {
  constexpr std::string_view kUsual = " order=canonical";
  std::string note = plan;
  if (const auto at = note.find(kUsual); at != std::string::npos) note.erase(at, kUsual.size());
  return note;
}

std::string table_head(const Report& report) {
  const Options& o = report.options;
  const std::string_view program = report.collective->program;
  const bool factor = o.sizes.factor > 1;
  std::string text = fmt::format("# wreath {}{}\n", WREATH_VERSION,
                                 report.commit.empty() ? "" : fmt::format(" commit {}", report.commit));
  text += fmt::format("# Collective test starting: {}\n", program);
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: 1 validation: "
      "{} graph: {} unalign: {}\n#\n",
      o.threads / o.devices, streams(o.memory) ? o.devices : 0, o.sizes.minimum, o.sizes.maximum,
      factor ? o.sizes.factor : o.sizes.step, factor ? "factor" : "bytes", o.warmup,
      o.time_ms > 0 ? fmt::format("{:g} ms", o.time_ms) : std::to_string(o.iterations), o.check, o.graph_launches,
      o.unalign);
  text += fmt::format("# Ranks {}  transport {}  memory {}{}{}{}  clock {:.0f} ns a look, {}\n", report.world,
                      report.transport, name(o.memory), o.offset > 0 ? fmt::format("  offset {}", o.offset) : "",
                      o.rewrite ? "  inputs rewritten" : "", o.alternate ? "  calls alternate" : "", report.clock_ns,
                      report.starts_together         ? "each call is timed from a common start"
                      : o.per_iteration || o.rewrite ? "each call is timed"
                                                     : "loops of calls are timed");
  if (!report.transport_note.empty()) {
    text += fmt::format("# Transport {}{}\n", report.transport, report.transport_note);
  }
  if (o.repeats > 1) {
    text += fmt::format("# Repeats {}: all sizes in turn; times are medians{}\n", o.repeats,
                        o.repeats < kRoundsOfAnInterval ? ", low and high the whole range" : "");
  }
  if (report.flag_ns > 0) {
    text += fmt::format("# Cores {}: a flag takes {:.0f} ns from one to another\n", core_distance(report.flag_ns),
                        report.flag_ns);
  }
  if (!report.limit_name.empty()) {
    text += fmt::format(
        "# Limit: {}, what bare loops without this library reach; measured first, on whatever load "
        "there was then\n",
        report.limit_name);
  }
  if (report.has_slots)
    text +=
        "# Slots: bare loops that move as many bytes through slots of the best ring, or that change hands, and sum "
        "nothing\n";
  if (!o.peer.empty()) {
    text += fmt::format("# Peer: {}, in turns, out of place; ratio: its time over this library's\n", o.peer);
  }
  if (o.counters) {
    text += fmt::format("# Counters, of all ranks out of place, for each MiB of their messages: {}\n",
                        counters_note(report.counters, report.transport));
  }
  for (const std::string& warning : report.warnings) text += fmt::format("# Note: {}\n", warning);
  text += "# Using devices\n";
  for (const RankLine& line : report.ranks) {
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [{}] {}\n", line.rank, line.pid,
                        line.host, line.core, line.core < 0 ? "any core" : fmt::format("core {}", line.core), line.cpu);
  }
  return text + "#\n" + column_heads(report);
}

std::string table_row(const Report& report, const ReportRow& row) {
  std::string text =
      fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.work.bytes, row.work.count,
                  table_name(row.work.kind.dtype), shown_op(report, row.work), shown_root(report, row.work));
  text += measured(report, row.out_of_place) + measured(report, row.in_place);
  const auto limit = [](std::optional<double> us) { return "  " + (us ? fitted(*us, 7) : fmt::format("{:>7}", "-")); };
  if (!report.limit_name.empty()) text += limit(row.limit_us);
  if (report.has_slots) text += limit(row.slots_us);
  if (row.peer) text += fmt::format("  {}  {:>7.3f}", fitted(row.peer->time_us, 7), row.peer->ratio);
  text += counter_values(report, row.out_of_place);
  if (report.options.timestamps) text += fmt::format("  {:>19}", row.timestamp);
  return text + "  " + plan_note(row.plan) + "\n";
}

std::string table_foot(const Report& report) {
  std::string text = checked_lines(report);
  text += fmt::format("# {:<20} : {} {}\n", "Out of bounds values", report.out_of_bounds,
                      report.out_of_bounds > 0 ? "FAILED" : "OK");
  if (report.wrong() > 0) text += fmt::format("# {:<20} : {} FAILED\n", "Wrong values", report.wrong());
  text += fmt::format("# {:<20} : {:g} \n#\n", "Avg bus bandwidth", report.average_bus_gbps());
  return text + fmt::format("# Collective test concluded: {}\n\n", report.collective->program);
}

}  // namespace wreath::perf
