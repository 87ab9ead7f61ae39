// Writes the report as one page: headline figures, two plots, and the table. It loads nothing from elsewhere.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "perf/common/kept.hpp"
#include "perf/common/plot.hpp"
#include "perf/common/report.hpp"
#include "src/page/markup.hpp"
#include "src/page/page.hpp"

namespace wreath::perf {
namespace {

std::string shown(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 1000 ? 2 : 0); }

// Returns a size such as "8 B" or "64K".
std::string size_label(std::size_t bytes) {
  return format_bytes(bytes) + (bytes < 1024 || bytes % 1024 != 0 ? " B" : "");
}

// Returns whether rows of these dtypes, operators and roots belong to one line.
bool same_line(const Case& a, const Case& b) { return a.kind == b.kind; }

// Returns whether busbw is drawn. With one rank no byte crosses a bus, and algbw is drawn.
bool shows_bus(const Report& report) { return report.world > 1; }

double bandwidth(const Report& report, const Measurement& m) {
  return shows_bus(report) ? m.bus_gbps : m.algorithm_gbps;
}

std::string hover(const ReportRow& row, const Measurement& m, std::string_view direction) {
  return fmt::format("{} {} {}\n{} us\nalgbw {} GB/s, busbw {} GB/s\n{}", format_bytes(row.work.bytes),
                     table_name(row.work.kind.dtype), direction, shown(m.time_us), shown(m.algorithm_gbps),
                     shown(m.bus_gbps), plan_note(row.plan));
}

enum class Axis { Bandwidth, Time };

std::string_view direction(bool in_place) { return in_place ? "in place" : "out of place"; }

// Returns a point at its bandwidth or time, with its interval. The ends of the interval change places where times
// become bandwidths.
PlotPoint point_of(Axis axis, double gbps, double time_us, const std::optional<Interval>& spread_us) {
  const bool times = axis == Axis::Time;
  PlotPoint point{0, times ? time_us : gbps, ""};
  if (!spread_us || spread_us->low <= 0) return point;
  point.low = times ? spread_us->low : gbps * time_us / spread_us->high;
  point.high = times ? spread_us->high : gbps * time_us / spread_us->low;
  return point;
}

PlotSeries measured_series(const Report& report, const Case& line, bool in_place, Axis axis) {
  PlotSeries series;
  if (report.options.dtypes.size() > 1) series.name += fmt::format("{} ", table_name(line.kind.dtype));
  if (report.options.ops.size() > 1) series.name += fmt::format("{} ", name(line.kind.op));
  if (report.options.all_roots) series.name += fmt::format("root {} ", line.kind.root);
  series.name += direction(in_place);
  for (const ReportRow& row : report.rows) {
    if (!same_line(row.work, line) || (in_place && !row.in_place)) continue;
    const Measurement& m = in_place ? *row.in_place : row.out_of_place;
    PlotPoint point = point_of(axis, bandwidth(report, m), m.time_us, m.interval_us);
    point.bytes = static_cast<double>(row.work.bytes);
    point.title = hover(row, m, direction(in_place));
    series.points.push_back(std::move(point));
  }
  return series;
}

// Returns all sizes of a line that the other run has, even sizes that are not measured here. They are drawn beside
// series `index`.
PlotSeries kept_series(const Report& report, const Kept& kept, const PlotSeries& own, const Case& line, bool in_place,
                       int index, Axis axis) {
  PlotSeries series;
  series.name = fmt::format("{}: {}", kept.label(setup_of(report)), own.name);
  series.beside = index;
  for (const KeptRow& row : kept.rows) {
    const std::optional<KeptTime>& time = in_place ? row.in_place : row.out_of_place;
    if (!time || row.dtype != table_name(line.kind.dtype) || row.op != shown_op(report, line) ||
        row.root != shown_root(report, line)) {
      continue;
    }
    PlotPoint point =
        point_of(axis, shows_bus(report) ? time->bus_gbps : time->algorithm_gbps, time->time_us, time->interval_us);
    point.bytes = static_cast<double>(row.bytes);
    point.title = fmt::format("{}\n{} {} {}\n{} us\nalgbw {} GB/s, busbw {} GB/s\n{}", kept.path,
                              format_bytes(row.bytes), row.dtype, direction(in_place), shown(time->time_us),
                              shown(time->algorithm_gbps), shown(time->bus_gbps), plan_note(row.plan));
    series.points.push_back(std::move(point));
  }
  return series;
}

PlotSeries limit_series(const Report& report, Axis axis) {
  PlotSeries series{report.limit_name, {}, true};
  const double factor = shows_bus(report) ? report.collective->bus_factor(report.world) : 1;
  for (const ReportRow& row : report.rows) {
    if (!same_line(row.work, report.rows.front().work) || !row.limit_us || *row.limit_us <= 0) continue;
    const double gbps = static_cast<double>(row.work.bytes) / (*row.limit_us * 1e3) * factor;
    series.points.push_back(
        {static_cast<double>(row.work.bytes), axis == Axis::Bandwidth ? gbps : *row.limit_us,
         fmt::format("limit at {}: {} us, {} GB/s", format_bytes(row.work.bytes), shown(*row.limit_us), shown(gbps))});
  }
  return series;
}

std::string plot(const Report& report, const Kept* beside, Axis axis) {
  Plot drawn;
  drawn.title = axis == Axis::Time ? "Time" : shows_bus(report) ? "Bus bandwidth" : "Bandwidth";
  drawn.unit = axis == Axis::Time ? "us over size" : "GB/s over size";
  std::vector<Case> lines;
  for (const ReportRow& row : report.rows) {
    const auto same = [&](const Case& each) { return same_line(each, row.work); };
    if (std::none_of(lines.begin(), lines.end(), same)) lines.push_back(row.work);
  }
  std::vector<PlotSeries> others;
  for (const Case& line : lines) {
    for (const bool in_place : {false, true}) {
      if (in_place && !report.rows.front().in_place) continue;
      const int index = static_cast<int>(drawn.series.size());
      drawn.series.push_back(measured_series(report, line, in_place, axis));
      if (beside == nullptr) continue;
      others.push_back(kept_series(report, *beside, drawn.series.back(), line, in_place, index, axis));
      if (others.back().points.empty()) others.pop_back();
    }
  }
  drawn.series.insert(drawn.series.end(), others.begin(), others.end());
  if (!report.limit_name.empty() && !report.rows.empty()) drawn.series.push_back(limit_series(report, axis));
  return fmt::format("<div class=\"card\">{}</div>\n", plot_svg(drawn));
}

std::string figure(std::string_view label, std::string_view value, std::string_view unit, bool bad = false) {
  return fmt::format("<div><dt>{}</dt><dd{}>{} <small>{}</small></dd></div>\n", label, bad ? " class=\"bad\"" : "",
                     value, escape_markup(unit));
}

std::string figures(const Report& report) {
  struct Best {
    double value = 0;
    std::size_t bytes = 0;
  };
  Best highest;
  Best shortest;
  for (const ReportRow& row : report.rows) {
    for (const Measurement* m : {&row.out_of_place, row.in_place ? &*row.in_place : &row.out_of_place}) {
      if (bandwidth(report, *m) > highest.value) highest = {bandwidth(report, *m), row.work.bytes};
      if (shortest.value == 0 || m->time_us < shortest.value) shortest = {m->time_us, row.work.bytes};
    }
  }
  const bool checked = report.options.check > 0;
  const bool data = !report.collective->has(kNoData);
  const std::uint64_t wrong = report.wrong() + report.out_of_bounds;
  std::string text = "<dl class=\"figures\">\n";
  if (data) {
    text += figure(shows_bus(report) ? "Highest bus bandwidth" : "Highest bandwidth", shown(highest.value),
                   fmt::format("GB/s at {}", size_label(highest.bytes)));
    text += figure("Mean bus bandwidth", shown(report.average_bus_gbps()), "GB/s over all rows");
  }
  return text +
         figure("Shortest time", shown(shortest.value),
                data ? fmt::format("us at {}", size_label(shortest.bytes)) : "us") +
         figure("Wrong values", checked ? std::to_string(wrong) : "-",
                checked ? "every timed call was checked" : "not checked", wrong > 0) +
         "</dl>\n";
}

std::string cells(const std::optional<Measurement>& maybe) {
  if (!maybe) return "<td>-</td><td>-</td><td>-</td><td>-</td>";
  const Measurement& m = *maybe;
  const bool bad = m.wrong.value_or(0) > 0;
  return fmt::format("<td>{}</td><td>{}</td><td>{}</td><td{}>{}</td>", shown(m.time_us), shown(m.algorithm_gbps),
                     shown(m.bus_gbps), bad ? " class=\"bad\"" : "", m.wrong ? std::to_string(*m.wrong) : "-");
}

// Returns the time of the other run, and the ratio of this run's time to it, out of place and in place.
std::string beside_cells(const Report& report, const Kept& kept, const ReportRow& row) {
  const KeptRow* const other = kept.find(report, row.work);
  const auto pair = [](const std::optional<KeptTime>& before, const Measurement* now) -> std::string {
    if (!before || now == nullptr) return "<td>-</td><td>-</td>";
    const double ratio = now->time_us / before->time_us;
    const char* css = ratio > 1.05 ? " class=\"bad\"" : ratio < 0.95 ? " class=\"good\"" : "";
    return fmt::format("<td>{}</td><td{}>{:.2f}</td>", shown(before->time_us), css, ratio);
  };
  if (other == nullptr) return pair({}, nullptr) + pair({}, nullptr);
  return pair(other->out_of_place, &row.out_of_place) + pair(other->in_place, row.in_place ? &*row.in_place : nullptr);
}

std::string table(const Report& report, const Kept* beside) {
  const bool limit = !report.limit_name.empty();
  constexpr std::string_view kBeside = "<th>out us</th><th>ratio</th><th>in us</th><th>ratio</th>";
  const std::string other = beside == nullptr ? ""
                                              : fmt::format("<th class=\"group\" colspan=\"4\">{}</th>",
                                                            escape_markup(beside->label(setup_of(report))));
  constexpr std::string_view kMeasured = "<th>time us</th><th>algbw</th><th>busbw</th><th>wrong</th>";
  std::string text = fmt::format(
      "<div class=\"card scroll\"><table>\n<thead><tr><th colspan=\"5\"></th><th class=\"group\" colspan=\"4\">out of "
      "place</th><th class=\"group\" colspan=\"4\">in place</th>{}<th colspan=\"{}\"></th></tr>\n<tr><th>size</th>"
      "<th>elements</th><th>type</th><th>op</th><th>root</th>{}{}{}{}<th "
      "class=\"text\">algorithm</th></tr></thead>\n<tbody>\n",
      other, limit ? 2 : 1, kMeasured, kMeasured, beside == nullptr ? "" : kBeside, limit ? "<th>limit us</th>" : "");
  for (const ReportRow& row : report.rows) {
    text += fmt::format("<tr><td title=\"{} bytes\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>{}{}",
                        row.work.bytes, format_bytes(row.work.bytes), row.work.count, table_name(row.work.kind.dtype),
                        shown_op(report, row.work), shown_root(report, row.work), cells(row.out_of_place),
                        cells(row.in_place));
    if (beside != nullptr) text += beside_cells(report, *beside, row);
    if (limit) text += fmt::format("<td>{}</td>", row.limit_us ? shown(*row.limit_us) : "-");
    text += fmt::format("<td class=\"text\">{}</td></tr>\n", escape_markup(plan_note(row.plan)));
  }
  return text + "</tbody></table></div>\n";
}

std::string details(const Report& report, const Kept* beside) {
  const Options& o = report.options;
  std::string text = fmt::format("{}\n\n", fmt::join(o.command, " "));
  for (const RankLine& line : report.ranks) {
    text += fmt::format("rank {:3}  pid {:7}  {}  {}  {}\n", line.rank, line.pid, line.host,
                        line.core < 0 ? "any core" : fmt::format("core {}", line.core), line.cpu);
  }
  for (const std::string& warning : report.warnings) text += fmt::format("note: {}\n", warning);
  if (beside != nullptr) {
    text += fmt::format("\nbeside it: {}{}, {}\n", beside->path,
                        beside->commit.empty() ? "" : ", commit " + beside->commit, beside->start_time);
    for (const std::string& each : differences(beside->setup, setup_of(report))) text += "  " + each + "\n";
  }
  text +=
      fmt::format("\n{} calls timed per size{}, {} to warm up, {} memory{}; started {}, ended {}",
                  o.time_ms > 0 ? fmt::format("{:g} ms of", o.time_ms) : std::to_string(o.iterations),
                  o.repeats > 1 ? fmt::format(", {} times in turn (medians)", o.repeats) : "", o.warmup, name(o.memory),
                  o.rewrite ? ", inputs rewritten before each call" : "", report.start_time, report.end_time);
  return fmt::format("<details><summary>How it was measured</summary>\n<pre>{}</pre></details>\n", escape_markup(text));
}

}  // namespace

std::string to_html(const Report& report, const Kept* beside) {
  const std::string ranks = fmt::format("{} rank{}", report.world, report.world == 1 ? "" : "s");
  const RankLine first = report.ranks.empty() ? RankLine{} : report.ranks.front();
  const std::string title = fmt::format("{}: {} over {}", report.collective->program, ranks, report.transport);
  const std::string about =
      fmt::format("{} over {} on {} ({}) &middot; wreath {}{} &middot; {}", ranks, escape_markup(report.transport),
                  escape_markup(first.host), escape_markup(first.cpu), WREATH_VERSION,
                  report.commit.empty() ? "" : ", commit " + escape_markup(report.commit), report.start_time);
  std::string body = figures(report);
  if (!report.collective->has(kNoData)) {
    body += "<div class=\"plots\">\n" + plot(report, beside, Axis::Bandwidth) + plot(report, beside, Axis::Time) +
            "</div>\n";
  }
  body += table(report, beside) + details(report, beside);
  return page(title, report.collective->program, about, body);
}

}  // namespace wreath::perf
