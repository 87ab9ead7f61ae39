// Compares a run with a kept one row by row: the kept time, the present time, their ratio, and the verdict.
#include "perf/common/baseline.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace wreath::perf {
namespace {

std::string_view word(Verdict verdict) {
  switch (verdict) {
    case Verdict::Slower: return "SLOWER";
    case Verdict::Faster: return "faster";
    case Verdict::Same: break;
  }
  return "same";
}

std::string time_shown(double us) { return fmt::format("{:.{}f}", us, us < 100 ? 2 : us < 10'000 ? 1 : 0); }

std::string time_shown(const Interval& us) { return fmt::format("{}..{}", time_shown(us.low), time_shown(us.high)); }

std::string head(const Kept& kept, double tolerance_percent) {
  std::string text = fmt::format("# Baseline {}{}, {}\n", kept.path,
                                 kept.commit.empty() ? "" : fmt::format(" of commit {}", kept.commit), kept.start_time);
  text += fmt::format(
      "# Medians of repeats with their 90% interval; slower: all of it more than {:g}% beyond the kept interval\n",
      tolerance_percent);
  constexpr std::string_view kLine = "# {:>10}  {:>8}  {:>6}  {:>4}  {:<12}  {:>9}  {:>19}  {:>9}  {:>19}  {:>6}  {}\n";
  text += fmt::format(kLine, "size", "type", "redop", "root", "place", "kept", "interval", "now", "interval", "ratio",
                      "verdict");
  return text + fmt::format(kLine, "(B)", "", "", "", "", "(us)", "(us)", "(us)", "(us)", "", "");
}

// Adds a row's line for one place, and its verdict.
void judge_place(const Report& report, const ReportRow& row, const KeptRow* kept, bool in_place, Judgement& judgement) {
  const Measurement& now = in_place ? *row.in_place : row.out_of_place;
  const std::string_view place = in_place ? "in place" : "out of place";
  std::string line =
      fmt::format("{:>12}  {:>8}  {:>6}  {:>4}  {:<12}  ", row.work.bytes, table_name(row.work.kind.dtype),
                  shown_op(report, row.work), shown_root(report, row.work), place);
  const std::optional<KeptTime> before = kept == nullptr ? std::nullopt
                                         : in_place      ? kept->in_place
                                                         : kept->out_of_place;
  const Interval spread = now.interval_us.value_or(Interval{now.time_us, now.time_us});
  if (!before || !before->interval_us) {
    judgement.table += line + fmt::format("{:>9}  {:>19}  {:>9}  {:>19}  {:>6}  not kept\n", "-", "-",
                                          time_shown(now.time_us), time_shown(spread), "-");
    return;
  }
  const double ratio = now.time_us / before->time_us;
  const Verdict verdict = judge(*before->interval_us, spread, report.options.tolerance_percent);
  line +=
      fmt::format("{:>9}  {:>19}  {:>9}  {:>19}  {:>6.2f}  {}", time_shown(before->time_us),
                  time_shown(*before->interval_us), time_shown(now.time_us), time_shown(spread), ratio, word(verdict));
  if (kept->plan != row.plan) line += fmt::format("; was {}", plan_note(kept->plan));
  judgement.table += line + "\n";
  ++judgement.compared;
  if (verdict == Verdict::Slower) {
    judgement.slower.push_back(fmt::format("{} {} ({:.2f} times)", format_bytes(row.work.bytes), place, ratio));
  }
}

}  // namespace

Verdict judge(const Interval& kept, const Interval& now, double tolerance_percent) noexcept {
  const double factor = 1 + tolerance_percent / 100;
  if (now.low > kept.high * factor) return Verdict::Slower;
  return now.high * factor < kept.low ? Verdict::Faster : Verdict::Same;
}

Judgement judge_rows(const Report& report, const Kept& kept) {
  Judgement judgement;
  judgement.table = head(kept, report.options.tolerance_percent);
  for (const ReportRow& row : report.rows) {
    const KeptRow* const before = kept.find(report, row.work);
    judge_place(report, row, before, false, judgement);
    if (row.in_place) judge_place(report, row, before, true, judgement);
  }
  judgement.table += fmt::format("# Slower than the baseline : {} of {} {}\n\n", judgement.slower.size(),
                                 judgement.compared, judgement.slower.empty() ? "OK" : "FAILED");
  return judgement;
}

Status check_baseline(const Kept& kept, const Setup& now) {
  const auto error = [&](const std::string& why) {
    return Error{ErrorCode::InvalidArgument, fmt::format("--baseline {}: {}", kept.path, why)};
  };
  const auto list = differences(kept.setup, now);
  if (!list.empty()) return error(fmt::format("kept under other circumstances: {}", fmt::join(list, "; ")));
  const auto has_interval = [](const KeptRow& row) { return row.out_of_place && row.out_of_place->interval_us; };
  if (std::none_of(kept.rows.begin(), kept.rows.end(), has_interval)) {
    return error(
        fmt::format("its times have no intervals; keep one with --json and --repeats {} or more", kRoundsOfAnInterval));
  }
  return {};
}

}  // namespace wreath::perf
