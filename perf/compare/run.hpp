// An interleaved run: in each round every setting is started once for each operation, in the other order in every
// second round.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "perf/compare/report.hpp"
#include "perf/compare/settings.hpp"

namespace wreath::perf {

struct Contestants {
  std::string transport;
  std::string operation;
  std::vector<const Setting*> settings;
};

struct RunOptions {
  int ranks = 2;
  int rounds = 8;
  double time_ms = 20;  // of timed calls a size and start
  std::vector<std::size_t> sizes;
  bool rewrite = false;
  std::int64_t timeout_ms = 90'000;  // of one start
  std::string folder;                // of the programs
  std::function<double()> flag_ns;   // measures a flag's way between the cores around each round; empty: as `limits`
  std::string other_build;           // the folder of another build's programs; empty: there is none
};

// After each start: how many are done of how many, and what was.
using Step = std::function<void(int done, int all, const std::string& what)>;

// Adds what `comparison` lacks. What cannot be measured is a remark, and is not tried again.
Status run_contest(const RunOptions& options, const std::vector<Contestants>& contestants, Comparison& comparison,
                   const Step& step);

}  // namespace wreath::perf
