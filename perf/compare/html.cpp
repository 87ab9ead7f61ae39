// Writes a comparison as a page: ratios by size, and the table.
#include <fmt/format.h>

#include <set>

#include "perf/base/sizes.hpp"
#include "perf/common/plot.hpp"
#include "perf/compare/report.hpp"
#include "perf/compare/settings.hpp"
#include "src/page/markup.hpp"
#include "src/page/page.hpp"

namespace wreath::perf {
namespace {

// Returns the ratios of one operation by size.
PlotSeries series_of(const Comparison& comparison, const std::string& transport, const std::string& operation) {
  PlotSeries series;
  series.name = operation;
  for (const auto& [cell, contest] : comparison.cells) {
    const auto verdict = judge(contest);
    if (cell.transport != transport || cell.operation != operation || !verdict || verdict->best.empty()) continue;
    series.points.push_back(
        {static_cast<double>(cell.bytes), verdict->ratio,
         fmt::format("{} of {}: {:.2f}, between {:.2f} and {:.2f}", operation, format_bytes(cell.bytes), verdict->ratio,
                     verdict->interval.low, verdict->interval.high)});
  }
  return series;
}

// Returns a plot with a line for each operation, and the line at which both sides are equally fast.
std::string plot_of(const Comparison& comparison, const std::string& transport) {
  Plot plot{"Over " + transport, "best peer's time / Wreath's, by size; above 1 Wreath is faster", {}};
  std::set<std::string> operations;
  for (const auto& [cell, contest] : comparison.cells) {
    if (cell.transport == transport) operations.insert(cell.operation);
  }
  PlotSeries even{"equally fast", {}, true};
  for (const std::string& operation : operations) {
    plot.series.push_back(series_of(comparison, transport, operation));
    const auto& points = plot.series.back().points;
    if (points.size() > even.points.size()) even.points = points;
  }
  for (PlotPoint& point : even.points) point.value = 1;
  plot.series.push_back(even);
  std::erase_if(plot.series, [](const PlotSeries& series) { return series.points.empty(); });
  return fmt::format("<div class=\"card\">{}</div>\n", plot_svg(plot));
}

std::string row_of(const Cell& cell, const Contest& contest) {
  const auto verdict = judge(contest);
  if (!verdict || verdict->best.empty()) return "";
  const Setting* setting = find_setting(cell.transport, verdict->best);
  return fmt::format(
      "<tr><td class=\"text\">{}</td><td "
      "class=\"text\">{}</td><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td{}>{:.2f}</td>"
      "<td>{:.2f} .. {:.2f}</td><td class=\"text\">{}</td></tr>\n",
      cell.transport, cell.operation, format_bytes(cell.bytes), verdict->wreath_us, verdict->best_us,
      verdict->slower() ? " class=\"bad\"" : "", verdict->ratio, verdict->interval.low, verdict->interval.high,
      setting == nullptr ? verdict->best : std::string(setting->shown));
}

}  // namespace

std::string to_html(const Comparison& comparison) {
  std::set<std::string> transports;
  std::string rows;
  for (const auto& [cell, contest] : comparison.cells) {
    transports.insert(cell.transport);
    rows += row_of(cell, contest);
  }
  std::string body = "<div class=\"plots\">\n";
  for (const std::string& transport : transports) body += plot_of(comparison, transport);
  body +=
      "</div>\n<div class=\"card scroll\"><table>\n<thead><tr><th class=\"text\">transport</th><th class=\"text\">"
      "operation</th><th>size</th><th>Wreath us</th><th>best peer us</th><th>ratio</th><th>90 % interval</th>"
      "<th class=\"text\">best peer</th></tr></thead>\n<tbody>\n" +
      rows + "</tbody></table></div>\n<details><summary>How it was measured</summary>\n<pre>" +
      escape_markup(comparison.command + "\n" + to_text(comparison)) + "</pre></details>\n";
  return page("Wreath beside other libraries", "Wreath beside other libraries",
              escape_markup(fmt::format("{} ranks on {}, commit {}, {}", comparison.ranks, comparison.machine,
                                        comparison.commit, comparison.started)),
              body);
}

}  // namespace wreath::perf
