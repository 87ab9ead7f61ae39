// Computes summaries of times.
#include "perf/base/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace wreath::perf {

Statistics summarize(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  const auto percentile = [&](std::size_t percent) { return sorted[std::min(n - 1, (n * percent + 99) / 100 - 1)]; };
  Statistics result;
  result.minimum = sorted.front();
  result.maximum = sorted.back();
  result.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(n);
  result.p50 = sorted[n / 2];
  result.p95 = percentile(95);
  result.p99 = percentile(99);
  double squares = 0;
  for (const double sample : sorted) squares += (sample - result.mean) * (sample - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(n));
  return result;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Interval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  constexpr double kOutside = 0.1;
  // The probability that exactly `left_out` values lie below the median.
  double probability = std::pow(0.5, static_cast<double>(n));
  // The probability that at most that many values do.
  double below = probability;
  std::size_t left_out = 0;
  for (std::size_t next = 1; 2 * (next + 1) <= n; ++next) {
    probability *= static_cast<double>(n - next + 1) / static_cast<double>(next);
    below += probability;
    if (2 * below > kOutside) break;
    left_out = next;
  }
  return {values[left_out], values[n - 1 - left_out]};
}

double average_of(Average mode, std::span<const double> by_rank) {
  const Statistics all = summarize(by_rank);
  switch (mode) {
    case Average::Rank0: return by_rank[0];
    case Average::Minimum: return all.minimum;
    case Average::Maximum: return all.maximum;
    case Average::Mean: break;
  }
  return all.mean;
}

}  // namespace wreath::perf
