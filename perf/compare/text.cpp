// Writes comparisons as tables.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "perf/base/sizes.hpp"
#include "perf/compare/report.hpp"
#include "perf/compare/settings.hpp"

namespace wreath::perf {
namespace {

std::string fitted(double us) {
  return us < 10 ? fmt::format("{:.2f}", us) : fmt::format("{:.{}f}", us, us < 100 ? 1 : 0);
}

std::string shown_name(const std::string& transport, const std::string& code) {
  const Setting* setting = find_setting(transport, code);
  return setting == nullptr ? code : std::string(setting->shown);
}

std::string line_of(const Cell& cell, const Contest& contest, const Verdict& verdict) {
  std::string text =
      fmt::format("{:<15} {:>6}  {:>10}", cell.operation, format_bytes(cell.bytes), fitted(verdict.wreath_us));
  const Times& ours = contest.at("wreath");
  if (ours.wrong > 0) return text + fmt::format("  WRONG in {} rounds\n", ours.wrong);
  if (verdict.best.empty()) return text + "  no peer did it\n";
  return text + fmt::format("  {:>10}  {:>5.2f}  {:>5.2f} .. {:<5.2f} {:<7} {}\n", fitted(verdict.best_us),
                            verdict.ratio, verdict.interval.low, verdict.interval.high,
                            verdict.slower() ? "SLOWER" : "", shown_name(cell.transport, verdict.best));
}

struct Means {
  std::map<std::string, std::vector<double>> by_operation;
  std::vector<double> all;
  std::vector<std::string> slower;
};

// Returns the mean ratio beside those peers' settings that count; empty where no cell has any.
std::string mean_beside(const Comparison& comparison, const std::string& transport, std::string_view title,
                        const std::function<bool(const Setting&)>& counts) {
  std::vector<double> ratios;
  for (const auto& [cell, contest] : comparison.cells) {
    if (cell.transport != transport) continue;
    const auto verdict = judge(contest, [&](const std::string& code) {
      const Setting* setting = find_setting(transport, code);
      return setting != nullptr && counts(*setting);
    });
    if (verdict && !verdict->best.empty()) ratios.push_back(verdict->ratio);
  }
  if (ratios.empty()) return {};
  return fmt::format("  {:<36} {:>5.2f}  ({} cells)\n", title, geometric_mean(ratios), ratios.size());
}

// Returns the means beside each library alone, at its own best settings, and beside each of its settings alone. The
// best of many settings in each cell flatters a library that would have to be told which.
std::string means_by_library(const Comparison& comparison, const std::string& transport) {
  std::string text;
  for (const Library* library : peers()) {
    text += mean_beside(comparison, transport, fmt::format("beside {}", library->name),
                        [&](const Setting& setting) { return setting.library == library; });
    for (const Setting& each : settings()) {
      if (each.library != library) continue;
      text += mean_beside(comparison, transport, fmt::format("  always {}", each.shown),
                          [&](const Setting& setting) { return &setting == &each; });
    }
  }
  return text;
}

std::string means_of(const Means& means, const std::string& by_library) {
  if (means.all.empty()) return "";
  std::string text = "\ngeometric means of the ratios:\n";
  for (const auto& [operation, ratios] : means.by_operation) {
    text += fmt::format("  {:<15} {:>5.2f}\n", operation, geometric_mean(ratios));
  }
  text += fmt::format("  {:<15} {:>5.2f}\n", "all", geometric_mean(means.all)) + by_library;
  text += fmt::format("slower (whole interval below 0.95): {} of {} cells{}\n", means.slower.size(), means.all.size(),
                      means.slower.empty() ? "" : ":");
  for (const std::string& each : means.slower) text += "  " + each + "\n";
  return text;
}

std::string table_of(const Comparison& comparison, const std::string& transport, std::string_view title) {
  const bool known = transport == transport_of(Carrier::Sockets) && !comparison.congestion_control.empty();
  const std::string under = known ? " under " + comparison.congestion_control : "";
  std::string text = fmt::format(
      "\n{}{}, {} ranks{}: median time of a call in us, ratio = best peer / Wreath, and its 90 % "
      "interval\n{:<15} {:>6}  {:>10}  {:>10}  {:>5}  {:<14} {:<7} best peer\n",
      transport, under, comparison.ranks, title, "operation", "bytes", "Wreath", "best peer", "ratio", "interval", "");
  Means means;
  for (const auto& [cell, contest] : comparison.cells) {
    const auto verdict = judge(contest);
    if (cell.transport != transport || !verdict) continue;
    text += line_of(cell, contest, *verdict);
    if (verdict->best.empty()) continue;
    means.by_operation[cell.operation].push_back(verdict->ratio);
    means.all.push_back(verdict->ratio);
    if (verdict->slower()) means.slower.push_back(fmt::format("{} {}", cell.operation, format_bytes(cell.bytes)));
  }
  return text + means_of(means, means_by_library(comparison, transport));
}

std::string tables_of(const Comparison& comparison, std::string_view title) {
  std::string text;
  std::string last;
  for (const auto& [cell, contest] : comparison.cells) {
    if (cell.transport != last) text += table_of(comparison, cell.transport, title);
    last = cell.transport;
  }
  return text;
}

}  // namespace

std::string to_text(const Comparison& comparison) {
  std::string text = tables_of(comparison, "");
  int fewest = kRoundsOfAnInterval;
  for (const auto& [cell, contest] : comparison.cells) {
    const auto verdict = judge(contest);
    if (verdict && !verdict->best.empty()) fewest = std::min(fewest, verdict->rounds);
  }
  const auto rounds = distances(comparison);
  for (const auto& [distance, name] : {std::pair(Distance::Near, "near"), std::pair(Distance::Far, "far")}) {
    const auto count = std::ranges::count(rounds, distance, [](const auto& each) { return each.second; });
    const bool all = static_cast<std::size_t>(count) == rounds.size();
    if (count == 0 || all) continue;
    text += tables_of(at_distance(comparison, distance), fmt::format(", {} cores only ({} rounds)", name, count));
  }
  if (!comparison.probes.empty()) {
    text += "\na flag's way between the cores, ns, before and after each round:";
    for (const auto& [round, probe] : comparison.probes)
      text += fmt::format(" {:.0f}/{:.0f}", probe.before_ns, probe.after_ns);
    text += "\n";
  }
  if (fewest < kRoundsOfAnInterval) {
    text += fmt::format("note: {} rounds: the intervals are their range, and hold the median with less than 90 %\n",
                        fewest);
  }
  for (const std::string& remark : comparison.remarks) text += "note: " + remark + "\n";
  return text;
}

}  // namespace wreath::perf
