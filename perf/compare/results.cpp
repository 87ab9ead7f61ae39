// Computes medians, their intervals, and the best settings.
#include "perf/compare/results.hpp"

#include <algorithm>
#include <cmath>

namespace wreath::perf {

std::optional<Verdict> judge(const Contest& contest, const std::function<bool(const std::string&)>& counts) {
  const auto ours = contest.find("wreath");
  if (ours == contest.end() || ours->second.us.empty()) return std::nullopt;
  const auto values = [](const Times& times) {
    std::vector<double> list;
    for (const auto& [round, us] : times.us) list.push_back(us);
    return list;
  };
  Verdict verdict;
  verdict.wreath_us = median(values(ours->second));
  const Times* best = nullptr;
  for (const auto& [code, times] : contest) {
    if (code == "wreath" || times.wrong > 0 || times.us.empty() || (counts && !counts(code))) continue;
    const double us = median(values(times));
    if (best != nullptr && us >= verdict.best_us) continue;
    best = &times;
    verdict.best = code;
    verdict.best_us = us;
  }
  if (best == nullptr) return verdict;
  std::vector<double> ratios;
  for (const auto& [round, us] : best->us) {
    const auto same = ours->second.us.find(round);
    if (same != ours->second.us.end()) ratios.push_back(us / same->second);
  }
  verdict.rounds = static_cast<int>(ratios.size());
  verdict.ratio = median(ratios);
  verdict.interval = median_interval(ratios);
  return verdict;
}

int wrong_results(const std::map<Cell, Contest>& cells) {
  int wrong = 0;
  for (const auto& [cell, contest] : cells) {
    const auto ours = contest.find("wreath");
    if (ours != contest.end()) wrong += ours->second.wrong;
  }
  return wrong;
}

double geometric_mean(const std::vector<double>& values) {
  double logs = 0;
  for (const double value : values) logs += std::log(value);
  return values.empty() ? 0 : std::exp(logs / static_cast<double>(values.size()));
}

}  // namespace wreath::perf
