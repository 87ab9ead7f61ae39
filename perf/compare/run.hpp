// An interleaved run: each round starts every setting once for each operation. The order is reversed in every second
// round.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "perf/base/machine.hpp"
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
  double time_ms = 20;  // of timed calls, for each size and start
  std::vector<std::size_t> sizes;
  bool rewrite = false;
  bool alternate = false;
  std::int64_t timeout_ms = 90'000;  // of one start
  std::string folder;                // of the programs
  // Measures the time of a flag between the cores around each round; empty: as `limits` does it.
  std::function<double()> flag_ns;
  // The folder of another build's programs; empty: there is none.
  std::string other_build;
  std::string peers{};  // Places::peers
};

// Says in words how calls differ from one that repeats; empty: they do not.
inline std::string calls_text(const RunOptions& options) {
  // Ranks that share cores begin behind a barrier (CommonStart).
  const bool together = options.ranks <= static_cast<int>(allowed_cores().size());
  std::string text = !options.rewrite ? "" : together ? "inputs rewritten, common start" : "inputs rewritten";
  if (options.alternate) text += text.empty() ? "calls alternate" : ", calls alternate";
  return text;
}

// Reports each start: how many are done, how many there are, and the name of this one.
using Step = std::function<void(int done, int all, const std::string& what)>;

// Adds the results that `comparison` lacks. A setting that cannot be measured becomes a remark, and is not tried again.
Status run_contest(const RunOptions& options, const std::vector<Contestants>& contestants, Comparison& comparison,
                   const Step& step);

}  // namespace wreath::perf
