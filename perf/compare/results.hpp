// Times of an interleaved run, and what they say: ratios with intervals.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "perf/base/statistics.hpp"

namespace wreath::perf {

// One thing that is timed: a perf tool's operation at one size over one transport.
struct Cell {
  std::string transport;
  std::string operation;  // "all_reduce"
  std::size_t bytes = 0;
  auto operator<=>(const Cell&) const = default;
};

// One call's time by round, where it was measured and right.
struct Times {
  std::map<int, double> us;  // by round
  int wrong = 0;             // rounds whose results were wrong
};

// By setting's code; "wreath" is this library.
using Contest = std::map<std::string, Times>;

// How a cell ended: the best setting of any peer by its median, against this library.
struct Verdict {
  std::string best;      // code; empty: no peer did it right
  double wreath_us = 0;  // medians
  double best_us = 0;
  double ratio = 0;  // best / wreath, median over rounds in which both were measured
  Interval interval;
  int rounds = 0;
  bool slower() const { return !best.empty() && interval.high < 0.95; }
};
// Nothing where this library was not measured. `counts`: whether a peer's setting is looked at, by its code.
std::optional<Verdict> judge(const Contest& contest, const std::function<bool(const std::string&)>& counts = {});

// Rounds in which this library's results were wrong.
int wrong_results(const std::map<Cell, Contest>& cells);

double geometric_mean(const std::vector<double>& values);

}  // namespace wreath::perf
