// The report as one page: headline figures, two plots, the table. Nothing is loaded from elsewhere.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "perf/common/page.hpp"
#include "perf/common/plot.hpp"
#include "perf/common/report.hpp"

namespace wreath::perf {
namespace {

std::string shown(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 3 : value < 1000 ? 2 : 0); }

// "8 B", "64K".
std::string size_label(std::size_t bytes) {
  return format_size(bytes) + (bytes < 1024 || bytes % 1024 != 0 ? " B" : "");
}

// Whether rows of this dtype, operator and root belong to one line.
bool same_line(const Case& a, const Case& b) { return a.kind == b.kind; }

// With one rank no byte crosses a bus: then algbw is drawn.
bool shows_bus(const Report& report) { return report.world > 1; }

double bandwidth(const Report& report, const Measurement& m) {
  return shows_bus(report) ? m.bus_gbps : m.algorithm_gbps;
}

std::string hover(const ReportRow& row, const Measurement& m, std::string_view direction) {
  return fmt::format("{} {} {}\n{} us\nalgbw {} GB/s, busbw {} GB/s\n{}", format_size(row.work.bytes),
                     table_name(row.work.kind.dtype), direction, shown(m.time_us), shown(m.algorithm_gbps),
                     shown(m.bus_gbps), plan_note(row.plan));
}

enum class Axis { Bandwidth, Time };

PlotSeries measured_series(const Report& report, const Case& line, bool in_place, Axis axis) {
  const std::string_view direction = in_place ? "in place" : "out of place";
  PlotSeries series;
  if (report.options.dtypes.size() > 1) series.name += fmt::format("{} ", table_name(line.kind.dtype));
  if (report.options.ops.size() > 1) series.name += fmt::format("{} ", name(line.kind.op));
  if (report.options.all_roots) series.name += fmt::format("root {} ", line.kind.root);
  series.name += direction;
  for (const ReportRow& row : report.rows) {
    if (!same_line(row.work, line) || (in_place && !row.in_place)) continue;
    const Measurement& m = in_place ? *row.in_place : row.out_of_place;
    series.points.push_back({static_cast<double>(row.work.bytes),
                             axis == Axis::Bandwidth ? bandwidth(report, m) : m.time_us, hover(row, m, direction)});
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
         fmt::format("limit at {}: {} us, {} GB/s", format_size(row.work.bytes), shown(*row.limit_us), shown(gbps))});
  }
  return series;
}

std::string plot(const Report& report, Axis axis) {
  Plot drawn;
  drawn.title = axis == Axis::Time ? "Time" : shows_bus(report) ? "Bus bandwidth" : "Bandwidth";
  drawn.unit = axis == Axis::Time ? "us over size" : "GB/s over size";
  std::vector<Case> lines;
  for (const ReportRow& row : report.rows) {
    const auto same = [&](const Case& each) { return same_line(each, row.work); };
    if (std::none_of(lines.begin(), lines.end(), same)) lines.push_back(row.work);
  }
  for (const Case& line : lines) {
    drawn.series.push_back(measured_series(report, line, false, axis));
    if (report.rows.front().in_place) drawn.series.push_back(measured_series(report, line, true, axis));
  }
  if (!report.limit_name.empty() && !report.rows.empty()) drawn.series.push_back(limit_series(report, axis));
  return fmt::format("<div class=\"card\">{}</div>\n", plot_svg(drawn));
}

std::string figure(std::string_view label, std::string_view value, std::string_view unit, bool bad = false) {
  return fmt::format("<div><dt>{}</dt><dd{}>{} <small>{}</small></dd></div>\n", label, bad ? " class=\"bad\"" : "",
                     value, escape_html(unit));
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
  const std::uint64_t wrong = report.wrong() + report.out_of_bounds;
  return "<dl class=\"figures\">\n" +
         figure(shows_bus(report) ? "Highest bus bandwidth" : "Highest bandwidth", shown(highest.value),
                fmt::format("GB/s at {}", size_label(highest.bytes))) +
         figure("Shortest time", shown(shortest.value), fmt::format("us at {}", size_label(shortest.bytes))) +
         figure("Mean bus bandwidth", shown(report.average_bus_gbps()), "GB/s over all rows") +
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

std::string table(const Report& report) {
  const bool limit = !report.limit_name.empty();
  constexpr std::string_view kMeasured = "<th>time us</th><th>algbw</th><th>busbw</th><th>wrong</th>";
  std::string text = fmt::format(
      "<div class=\"card scroll\"><table>\n<thead><tr><th colspan=\"5\"></th><th class=\"group\" colspan=\"4\">out of "
      "place</th><th class=\"group\" colspan=\"4\">in place</th><th colspan=\"{}\"></th></tr>\n<tr><th>size</th>"
      "<th>elements</th><th>type</th><th>op</th><th>root</th>{}{}{}<th "
      "class=\"text\">algorithm</th></tr></thead>\n<tbody>\n",
      limit ? 2 : 1, kMeasured, kMeasured, limit ? "<th>limit us</th>" : "");
  for (const ReportRow& row : report.rows) {
    text += fmt::format("<tr><td title=\"{} bytes\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>{}{}",
                        row.work.bytes, format_size(row.work.bytes), row.work.count, table_name(row.work.kind.dtype),
                        shown_op(report, row.work), shown_root(report, row.work), cells(row.out_of_place),
                        cells(row.in_place));
    if (limit) text += fmt::format("<td>{}</td>", row.limit_us ? shown(*row.limit_us) : "-");
    text += fmt::format("<td class=\"text\">{}</td></tr>\n", escape_html(plan_note(row.plan)));
  }
  return text + "</tbody></table></div>\n";
}

std::string details(const Report& report) {
  const Options& o = report.options;
  std::string text = fmt::format("{}\n\n", fmt::join(o.command, " "));
  for (const RankLine& line : report.ranks) {
    text += fmt::format("rank {:3}  pid {:7}  {}  {}  {}\n", line.rank, line.pid, line.host,
                        line.core < 0 ? "any core" : fmt::format("core {}", line.core), line.cpu);
  }
  for (const std::string& warning : report.warnings) text += fmt::format("note: {}\n", warning);
  text += fmt::format("\n{} calls timed per size, {} to warm up, {} memory{}; started {}, ended {}", o.iterations,
                      o.warmup, o.shared_memory ? "shared" : "host",
                      o.rewrite ? ", inputs rewritten before each call" : "", report.start_time, report.end_time);
  return fmt::format("<details><summary>How it was measured</summary>\n<pre>{}</pre></details>\n", escape_html(text));
}

}  // namespace

std::string to_html(const Report& report) {
  const std::string ranks = fmt::format("{} rank{}", report.world, report.world == 1 ? "" : "s");
  const RankLine first = report.ranks.empty() ? RankLine{} : report.ranks.front();
  const std::string title = fmt::format("{}: {} over {}", report.collective->program, ranks, report.transport);
  const std::string about =
      fmt::format("{} over {} on {} ({}) &middot; wreath {}{} &middot; {}", ranks, escape_html(report.transport),
                  escape_html(first.host), escape_html(first.cpu), WREATH_VERSION,
                  report.commit.empty() ? "" : ", commit " + escape_html(report.commit), report.start_time);
  const std::string body = figures(report) + "<div class=\"plots\">\n" + plot(report, Axis::Bandwidth) +
                           plot(report, Axis::Time) + "</div>\n" + table(report) + details(report);
  return page(title, report.collective->program, about, body);
}

}  // namespace wreath::perf
