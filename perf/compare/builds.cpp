// Measures cells in turns, the slower cells again, and pairs of the smallest call.
#include "perf/compare/builds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "perf/base/sizes.hpp"
#include "src/json/value.hpp"

namespace wreath::perf {
namespace {

constexpr double kSlowerBelow = 0.97;
constexpr int kRoundsAgain = 3;  // times the rounds of the first run
// The largest ratio of a flag's times before and after a pair that counts as near.
constexpr double kNearWithin = 1.25;
// The most pairs, as a multiple of the wanted pairs, since some pairs are not near.
constexpr int kMostPairs = 3;
constexpr double kPairTimeMs = 100;
constexpr std::size_t kPairBytes = 8;

std::vector<const Setting*> both_builds(const std::string& transport) {
  std::vector<const Setting*> both;
  for (const Setting& setting : settings()) {
    const bool build = setting.library == &kWreath || setting.library == &kOtherBuild;
    if (build && setting.transport() == transport) both.push_back(&setting);
  }
  return both;
}

Status run_again(const BuildsOptions& options, BuildsRun& run, const Step& step) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> sizes;
  for (const Cell& cell : looked_slower(run.first)) sizes[{cell.transport, cell.operation}].push_back(cell.bytes);
  RunOptions again = options.run;
  again.ranks = run.first.ranks;
  again.rounds *= kRoundsAgain;
  for (const auto& [key, bytes] : sizes) {
    again.sizes = bytes;
    const auto& [transport, operation] = key;
    WREATH_TRY(run_contest(again, {{transport, operation, both_builds(transport)}}, run.again, step));
  }
  return {};
}

bool is_near(const Probe& probe) noexcept {
  const auto [low, high] = std::minmax(probe.before_ns, probe.after_ns);
  return low > 0 && high <= kNearWithin * low;
}

// Returns the differences of the near pairs, by round.
std::map<int, double> differences_ns(const Comparison& pairs) {
  std::map<int, double> list;
  for (const auto& [cell, contest] : pairs.cells) {
    const auto ours = contest.find("wreath");
    const auto other = contest.find("build");
    if (ours == contest.end() || other == contest.end()) continue;
    for (const auto& [round, us] : ours->second.us) {
      const auto same = other->second.us.find(round);
      const auto probe = pairs.probes.find(round);
      if (same == other->second.us.end() || probe == pairs.probes.end() || !is_near(probe->second)) continue;
      list[round] = (us - same->second) * 1000;
    }
  }
  return list;
}

Status run_pairs(const BuildsOptions& options, Comparison& pairs, const Step& step) {
  RunOptions run = options.run;
  run.ranks = pairs.ranks;
  run.sizes = {kPairBytes};
  run.time_ms = std::max(run.time_ms, kPairTimeMs);
  const std::vector<Contestants> contestants{
      {options.transports.front(), "all_reduce", both_builds(options.transports.front())}};
  int lacking = options.near_pairs;
  run.rounds = 0;
  while (lacking > 0 && run.rounds < kMostPairs * options.near_pairs) {
    run.rounds += lacking;
    WREATH_TRY(run_contest(run, contestants, pairs, step));
    if (!pairs.remarks.empty()) break;
    lacking = options.near_pairs - static_cast<int>(differences_ns(pairs).size());
  }
  return {};
}

const Contest* contest_in(const Comparison& comparison, const Cell& cell) {
  const auto found = comparison.cells.find(cell);
  return found == comparison.cells.end() ? nullptr : &found->second;
}

std::string ratio_text(const Verdict& verdict) {
  return fmt::format("{:>6.3f}  {:.3f} .. {:.3f}", verdict.ratio, verdict.interval.low, verdict.interval.high);
}

std::string build_line(const BuildsRun& run, const Cell& cell, const Contest& contest) {
  const auto verdict = judge(contest);
  if (!verdict) return "";
  std::string line = fmt::format("{:<4} {:>2}  {:<15} {:>6}  {:>11.3f}", cell.transport, run.first.ranks,
                                 cell.operation, format_bytes(cell.bytes), verdict->wreath_us);
  if (contest.at("wreath").wrong > 0) return line + "  WRONG\n";
  if (verdict->best.empty()) return line + "  the other build has no right result\n";
  line += fmt::format("  {:>11.3f}  {}", verdict->best_us, ratio_text(*verdict));
  const Contest* again = contest_in(run.again, cell);
  const auto longer = again == nullptr ? std::nullopt : judge(*again);
  if (!longer) return line + "\n";
  return line + fmt::format("  again {}{}\n", ratio_text(*longer), is_slower(*longer) ? "  SLOWER" : "");
}

Json pairs_json(const BuildsReport& report, int near_pairs) {
  const PairDifference difference = difference_of(report.pairs, near_pairs);
  return {{"pairs", difference.pairs},
          {"difference_ns", difference.median_ns},
          {"interval_ns", {difference.interval_ns.low, difference.interval_ns.high}},
          {"measured", Json::parse(to_json(report.pairs))}};
}

}  // namespace

bool is_slower(const Verdict& verdict) noexcept {
  return !verdict.best.empty() && verdict.interval.high < kSlowerBelow;
}

std::vector<Cell> looked_slower(const Comparison& first) {
  std::vector<Cell> list;
  for (const auto& [cell, contest] : first.cells) {
    const auto verdict = judge(contest);
    if (verdict && is_slower(*verdict)) list.push_back(cell);
  }
  return list;
}

std::vector<Cell> slower_cells(const BuildsRun& run) {
  std::vector<Cell> list;
  for (const Cell& cell : looked_slower(run.first)) {
    const Contest* again = contest_in(run.again, cell);
    const auto verdict = again == nullptr ? std::nullopt : judge(*again);
    if (!verdict || is_slower(*verdict)) list.push_back(cell);
  }
  return list;
}

PairDifference difference_of(const Comparison& pairs, int at_most) {
  std::vector<double> list;
  for (const auto& [round, ns] : differences_ns(pairs)) {
    if (static_cast<int>(list.size()) < at_most) list.push_back(ns);
  }
  return {static_cast<int>(list.size()), median(list), median_interval(list)};
}

Result<BuildsReport> run_builds(const BuildsOptions& options, const Comparison& blank, const Step& step) {
  BuildsReport report{options.run.other_build, {}, blank};
  report.pairs.ranks = options.ranks.front();
  for (const int ranks : options.ranks) {
    BuildsRun run{blank, blank};
    run.first.ranks = run.again.ranks = ranks;
    std::vector<Contestants> contestants;
    for (const std::string& transport : options.transports) {
      for (const std::string& operation : options.operations) {
        contestants.push_back({transport, operation, both_builds(transport)});
      }
    }
    RunOptions first = options.run;
    first.ranks = ranks;
    WREATH_TRY(run_contest(first, contestants, run.first, step));
    WREATH_TRY(run_again(options, run, step));
    report.runs.push_back(std::move(run));
  }
  WREATH_TRY(run_pairs(options, report.pairs, step));
  return report;
}

int exit_code(const BuildsReport& report) noexcept {
  const auto bad = [](const Comparison& comparison) {
    const auto alone = [](const auto& cell) {
      const auto verdict = judge(cell.second);
      return !verdict || verdict->best.empty();
    };
    return !comparison.remarks.empty() || wrong_results(comparison.cells) > 0 ||
           std::any_of(comparison.cells.begin(), comparison.cells.end(), alone);
  };
  for (const BuildsRun& run : report.runs) {
    if (bad(run.first) || bad(run.again) || !slower_cells(run).empty()) return 1;
  }
  return bad(report.pairs) ? 1 : 0;
}

std::string to_text(const BuildsReport& report, int near_pairs) {
  std::string text = fmt::format(
      "\nthis build and {}: median time of a call in us, ratio = the other's time / this one's, and its 90 % interval\n"
      "{:<4} {:>2}  {:<15} {:>6}  {:>11}  {:>11}  {:>6}  interval\n",
      report.other, "", "n", "operation", "bytes", "this", "other", "ratio");
  std::string notes;
  std::size_t slower = 0;
  std::size_t cells = 0;
  const auto note = [&](const Comparison& comparison) {
    for (const std::string& remark : comparison.remarks) notes += "note: " + remark + "\n";
  };
  for (const BuildsRun& run : report.runs) {
    for (const auto& [cell, contest] : run.first.cells) text += build_line(run, cell, contest);
    cells += run.first.cells.size();
    slower += slower_cells(run).size();
    note(run.first);
    note(run.again);
  }
  note(report.pairs);
  text += fmt::format("\nslower (whole interval below {}, and again with {} times the rounds): {} of {} cells\n",
                      kSlowerBelow, kRoundsAgain, slower, cells);
  if (near_pairs > 0) {
    const PairDifference difference = difference_of(report.pairs, near_pairs);
    text += fmt::format(
        "all_reduce of {} bytes, this build - the other: {:+.1f} ns, {:+.1f} .. {:+.1f}, {} near pairs\n", kPairBytes,
        difference.median_ns, difference.interval_ns.low, difference.interval_ns.high, difference.pairs);
  }
  return text + notes;
}

std::string to_json(const BuildsReport& report, int near_pairs) {
  Json json = {{"wreath_builds", 1}, {"other_build", report.other}, {"runs", Json::array()}, {"slower", Json::array()}};
  for (const BuildsRun& run : report.runs) {
    json["runs"].push_back({{"first", Json::parse(to_json(run.first))}, {"again", Json::parse(to_json(run.again))}});
    for (const Cell& cell : slower_cells(run)) {
      json["slower"].push_back({{"ranks", run.first.ranks},
                                {"transport", cell.transport},
                                {"operation", cell.operation},
                                {"bytes", cell.bytes}});
    }
  }
  json["near_pairs"] = pairs_json(report, near_pairs);
  return json.dump({.indent = 1}) + "\n";
}

}  // namespace wreath::perf
