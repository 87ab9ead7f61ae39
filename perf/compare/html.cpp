// Comparisons as a page: times over size of this library and of each peer's best setting.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "perf/common/page.hpp"
#include "perf/common/plot.hpp"
#include "perf/common/sizes.hpp"
#include "perf/compare/report.hpp"
#include "perf/compare/settings.hpp"

namespace wreath::perf {
namespace {

using Group = std::pair<std::string, std::string>;  // transport and operation

double median_of(const Times& times) {
  std::vector<double> values;
  for (const auto& [round, us] : times.us) values.push_back(us);
  return median(std::move(values));
}

bool in(const Cell& cell, const Group& group) {
  return cell.transport == group.first && cell.operation == group.second;
}

// Time by size of one setting.
PlotSeries series_of(const Comparison& comparison, const Group& group, const std::string& code) {
  const Setting* setting = find_setting(group.first, code);
  PlotSeries series;
  series.name = setting == nullptr ? code : std::string(setting->shown);
  for (const auto& [cell, contest] : comparison.cells) {
    const auto found = contest.find(code);
    if (!in(cell, group) || found == contest.end() || found->second.wrong > 0) continue;
    const double us = median_of(found->second);
    series.points.push_back({static_cast<double>(cell.bytes), us,
                             fmt::format("{}: {} us at {}", series.name, us, format_size(cell.bytes))});
  }
  return series;
}

std::string plot_of(const Comparison& comparison, const Group& group) {
  std::set<std::string> codes;
  for (const auto& [cell, contest] : comparison.cells) {
    if (!in(cell, group)) continue;
    for (const auto& [code, times] : contest) codes.insert(code);
  }
  Plot plot{group.second + " over " + group.first, "us over size", {series_of(comparison, group, "wreath")}};
  for (const std::string& code : codes) {
    if (code != "wreath") plot.series.push_back(series_of(comparison, group, code));
  }
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
      cell.transport, cell.operation, format_size(cell.bytes), verdict->wreath_us, verdict->best_us,
      verdict->slower() ? " class=\"bad\"" : "", verdict->ratio, verdict->interval.low, verdict->interval.high,
      setting == nullptr ? verdict->best : std::string(setting->shown));
}

}  // namespace

std::string to_html(const Comparison& comparison) {
  std::set<Group> groups;
  std::string rows;
  for (const auto& [cell, contest] : comparison.cells) {
    groups.insert({cell.transport, cell.operation});
    rows += row_of(cell, contest);
  }
  std::string body = "<div class=\"plots\">\n";
  for (const Group& group : groups) body += plot_of(comparison, group);
  body +=
      "</div>\n<div class=\"card scroll\"><table>\n<thead><tr><th class=\"text\">transport</th><th class=\"text\">"
      "operation</th><th>size</th><th>Wreath us</th><th>best peer us</th><th>ratio</th><th>90 % interval</th>"
      "<th class=\"text\">best peer</th></tr></thead>\n<tbody>\n" +
      rows + "</tbody></table></div>\n<details><summary>How it was measured</summary>\n<pre>" +
      escape_html(comparison.command + "\n" + to_text(comparison)) + "</pre></details>\n";
  return page("Wreath beside other libraries", "Wreath beside other libraries",
              escape_html(fmt::format("{} ranks on {}, commit {}, {}", comparison.ranks, comparison.machine,
                                      comparison.commit, comparison.started)),
              body);
}

}  // namespace wreath::perf
