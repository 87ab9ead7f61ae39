// Measures two builds of this library in turns, to find cells in which this build is slower.
#pragma once

#include <string>
#include <vector>

#include "perf/compare/run.hpp"

namespace wreath::perf {

struct BuildsOptions {
  RunOptions run;  // `other_build` is set; `ranks` comes from the list below
  std::vector<int> ranks{2, 4};
  std::vector<std::string> transports;
  std::vector<std::string> operations;
  int near_pairs = 40;  // 0: none are measured
};

// The measurements with one number of ranks.
struct BuildsRun {
  Comparison first;
  // The cells that looked slower, with three times the rounds.
  Comparison again;
};

struct BuildsReport {
  std::string other;  // the other build's folder
  std::vector<BuildsRun> runs;
  // The pairs. A round is a pair: an all_reduce of 8 B by both builds, one start right after the other.
  Comparison pairs;
};

// Returns whether a cell is slower: the whole interval of other / this lies below 0.97.
bool is_slower(const Verdict& verdict) noexcept;

// Returns the cells that looked slower at first.
std::vector<Cell> looked_slower(const Comparison& first);
// Returns the cells that looked slower at first, and are slower in the longer run, too.
std::vector<Cell> slower_cells(const BuildsRun& run);

// The time of this build minus the time of the other build, over pairs in which the distance between the cores stayed
// the same.
struct PairDifference {
  int pairs = 0;
  double median_ns = 0;
  Interval interval_ns;
};
PairDifference difference_of(const Comparison& pairs, int at_most);

// Measures both builds. `blank` has the description of this run, and no cells.
Result<BuildsReport> run_builds(const BuildsOptions& options, const Comparison& blank, const Step& step);

// Returns 0 where no cell is slower, all results are right and both builds were measured in every cell; else 1.
int exit_code(const BuildsReport& report) noexcept;

std::string to_text(const BuildsReport& report, int near_pairs);
std::string to_json(const BuildsReport& report, int near_pairs);

}  // namespace wreath::perf
