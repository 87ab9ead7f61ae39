// Two builds of this library in turns: is this one slower than the other in any cell?
#pragma once

#include <string>
#include <vector>

#include "perf/compare/run.hpp"

namespace wreath::perf {

struct BuildsOptions {
  RunOptions run;  // `other_build` is set; `ranks` is taken from the list below
  std::vector<int> ranks{2, 4};
  std::vector<std::string> transports;
  std::vector<std::string> operations;
  int near_pairs = 40;  // 0: none are measured
};

// What was measured with one number of ranks.
struct BuildsRun {
  Comparison first;
  Comparison again;  // the cells that looked slower, with three times the rounds
};

struct BuildsReport {
  std::string other;  // the other build's folder
  std::vector<BuildsRun> runs;
  Comparison pairs;  // a round is a pair: 8 B all_reduce by both builds, one start right after the other
};

// A cell is slower where the whole interval of other / this lies below 0.97.
bool is_slower(const Verdict& verdict) noexcept;

// The cells that looked slower at first, and those of them that are so in the longer run, too.
std::vector<Cell> looked_slower(const Comparison& first);
std::vector<Cell> slower_cells(const BuildsRun& run);

// This build's time less the other's in the pairs during which the way between the cores stayed the same.
struct PairDifference {
  int pairs = 0;
  double median_ns = 0;
  Interval interval_ns;
};
PairDifference difference_of(const Comparison& pairs, int at_most);

// Measures. `blank` has the description of this run, and no cells.
Result<BuildsReport> run_builds(const BuildsOptions& options, const Comparison& blank, const Step& step);

// Returns 0 where no cell is slower, all results are right and both builds were measured in every cell; else 1.
int exit_code(const BuildsReport& report) noexcept;

std::string to_text(const BuildsReport& report, int near_pairs);
std::string to_json(const BuildsReport& report, int near_pairs);

}  // namespace wreath::perf
