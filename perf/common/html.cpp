// The report as one page: headline figures, two plots, the table. Nothing is loaded from elsewhere.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "perf/common/plot.hpp"
#include "perf/common/report.hpp"

namespace wreath::perf {
namespace {

constexpr std::string_view kStyle = R"(<style>
:root { color-scheme: light dark; --page: #fbfaf8; --card: #ffffff; --ink: #1d2530; --soft: #667085; --rule: #e6e4df;
  --c0: #2463c4; --c1: #d9730d; --c2: #1a8f6a; --c3: #b0338e; --c4: #6d4bc3; --c5: #8a6d00; --limit: #98a1ae;
  --bad: #c0262d; }
@media (prefers-color-scheme: dark) { :root { --page: #14171c; --card: #1c2027; --ink: #e7eaee; --soft: #98a2b1;
  --rule: #2d333d; --c0: #74a8ff; --c1: #ffb066; --c2: #5fd3ab; --c3: #f08ad2; --c4: #b39dff; --c5: #e3c64c;
  --limit: #6f7a89; --bad: #ff7b80; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 40px 24px 64px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1240px; margin: 0 auto; }
h1 { margin: 0; font-size: 26px; font-weight: 650; letter-spacing: -0.01em; }
.about { margin: 4px 0 28px; color: var(--soft); }
.figures { display: flex; flex-wrap: wrap; gap: 14px; margin: 0 0 20px; padding: 0; }
.figures div, .card { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 14px 18px; }
.figures div { flex: 1 1 180px; }
.figures dt { color: var(--soft); font-size: 13px; }
.figures dd { margin: 2px 0 0; font-size: 24px; font-weight: 620; font-variant-numeric: tabular-nums; }
.figures small { font-size: 13px; font-weight: 400; color: var(--soft); }
.bad { color: var(--bad); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); gap: 20px; }
svg { display: block; width: 100%; height: auto; font-family: inherit; }
svg text { fill: var(--ink); }
svg .title { font-size: 17px; font-weight: 620; }
svg .unit, svg .tick, svg .key { fill: var(--soft); font-size: 12.5px; font-weight: 400;
  font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--soft); }
svg .line { fill: none; stroke: var(--s); stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
svg .dot { fill: var(--card); stroke: var(--s); stroke-width: 2; } svg .halo { fill: transparent; }
svg .point:hover .halo { fill: var(--s); opacity: 0.2; } svg .point:hover .dot { fill: var(--s); }
.s0 { --s: var(--c0); } .s1 { --s: var(--c1); } .s2 { --s: var(--c2); }
.s3 { --s: var(--c3); } .s4 { --s: var(--c4); } .s5 { --s: var(--c5); }
.limit { --s: var(--limit); } svg .limit .line { stroke-dasharray: 2 6; } svg .limit .dot { display: none; }
.scroll { overflow-x: auto; margin-top: 20px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px;
  white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } th, td { text-align: right; padding: 5px 12px; }
th.text, td.text { text-align: left; } thead tr:last-child th { border-bottom: 1px solid var(--rule); }
th.group { text-align: center; } tbody tr:hover { background: var(--page); }
details { margin-top: 20px; color: var(--soft); } summary { cursor: pointer; }
pre { overflow-x: auto; color: var(--ink); font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; }
</style>
)";

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
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += fmt::format("<title>{0}: {1} over {2}</title>\n{3}</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
                      report.collective->program, ranks, escape_html(report.transport), kStyle);
  page += fmt::format("<p class=\"about\">{} over {} on {} ({}) &middot; wreath {}{} &middot; {}</p>\n", ranks,
                      escape_html(report.transport), escape_html(first.host), escape_html(first.cpu), WREATH_VERSION,
                      report.commit.empty() ? "" : ", commit " + escape_html(report.commit), report.start_time);
  page += figures(report) + "<div class=\"plots\">\n" + plot(report, Axis::Bandwidth) + plot(report, Axis::Time);
  return page + "</div>\n" + table(report) + details(report) + "</main>\n</body>\n</html>\n";
}

}  // namespace wreath::perf
