// The effort for a limit: the median of `rounds` rounds of about `round_ms` each.
#pragma once

#include <limits>

namespace wreath::perf {

// The value of a limit that could not be measured.
inline constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

struct Effort {
  int rounds = 11;
  double round_ms = 5;
};

inline constexpr Effort kQuickEffort{5, 1};

// Returns the calls that fill one round when one call takes call_us: at least 1, at most a million.
inline int calls_per_round(const Effort& effort, double call_us) {
  const double calls = effort.round_ms * 1000 / (call_us > 0.001 ? call_us : 0.001);
  return calls < 1 ? 1 : calls > 1e6 ? 1'000'000 : static_cast<int>(calls);
}

}  // namespace wreath::perf
