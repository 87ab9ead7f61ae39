// The times of an interleaved run, and the ratios with intervals that follow from them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "perf/base/statistics.hpp"

namespace wreath::perf {

// A case that is timed: the operation of a perf tool at one size over one transport.
struct Cell {
  std::string transport;
  std::string operation;  // "all_reduce"
  std::size_t bytes = 0;
  auto operator<=>(const Cell&) const = default;
};

// The time of a call in each round in which it was measured and right.
struct Times {
  std::map<int, double> us;  // by round
  int wrong = 0;             // rounds with wrong results
};

// The times by the code of the setting; "wreath" is this library.
using Contest = std::map<std::string, Times>;

// The result of a cell: the best setting of any peer by its median, against this library.
struct Verdict {
  std::string best;      // code; empty: no peer was right
  double wreath_us = 0;  // medians
  double best_us = 0;
  // The ratio best / wreath: the median over rounds in which both were measured.
  double ratio = 0;
  Interval interval;
  int rounds = 0;
  bool slower() const { return !best.empty() && interval.high < 0.95; }
};
// Returns the verdict; nullopt where this library was not measured. `counts` returns whether the peers' setting with
// that code counts.
std::optional<Verdict> judge(const Contest& contest, const std::function<bool(const std::string&)>& counts = {});

// Returns the number of rounds in which this library's results were wrong.
int wrong_results(const std::map<Cell, Contest>& cells);

double geometric_mean(const std::vector<double>& values);

}  // namespace wreath::perf
