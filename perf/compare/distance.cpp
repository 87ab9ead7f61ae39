// Tells rounds between near cores from those between far cores.
#include <algorithm>
#include <limits>

#include "perf/compare/report.hpp"

namespace wreath::perf {
namespace {

// Two flags' ways are of one distance where the longer takes at most so many times the shorter.
constexpr double kSameWithin = 1.25;

}  // namespace

std::map<int, Distance> distances(const Comparison& comparison) {
  double shortest_ns = std::numeric_limits<double>::infinity();
  for (const auto& [round, probe] : comparison.probes) {
    shortest_ns = std::min({shortest_ns, probe.before_ns, probe.after_ns});
  }
  std::map<int, Distance> all;
  for (const auto& [round, probe] : comparison.probes) {
    const auto [low_ns, high_ns] = std::minmax(probe.before_ns, probe.after_ns);
    if (high_ns <= kSameWithin * shortest_ns) {
      all[round] = Distance::Near;
    } else {
      all[round] = high_ns <= kSameWithin * low_ns ? Distance::Far : Distance::Moved;
    }
  }
  return all;
}

Comparison at_distance(const Comparison& comparison, Distance distance) {
  const auto all = distances(comparison);
  const auto elsewhere = [&](const auto& each) {
    const auto found = all.find(each.first);
    return found == all.end() || found->second != distance;
  };
  Comparison result = comparison;
  std::erase_if(result.probes, elsewhere);
  for (auto& [cell, contest] : result.cells) {
    for (auto& [code, times] : contest) std::erase_if(times.us, elsewhere);
  }
  return result;
}

}  // namespace wreath::perf
