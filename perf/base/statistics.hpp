// Summaries of times.
#pragma once

#include <span>
#include <vector>

namespace wreath::perf {

struct Statistics {
  double minimum = 0;
  double maximum = 0;
  double mean = 0;
  double p50 = 0;  // percentiles by nearest rank, as in nccl-tests
  double p95 = 0;
  double p99 = 0;
  double deviation = 0;  // of the population
  double variation_percent() const { return mean > 0 ? deviation / mean * 100 : 0; }
};

// Summarizes the samples, of which there must be at least one.
Statistics summarize(std::span<const double> samples);

double median(std::vector<double> values);

// The least rounds of an interval. Fewer rounds give no interval of 90 %.
inline constexpr int kRoundsOfAnInterval = 5;

// The middle of a sample's sorted values that holds its median with at least 90 % probability. This is true for every
// distribution (order statistics; binomial with 1/2). It is the whole range for fewer than 8 values.
struct Interval {
  double low = 0;
  double high = 0;
};
Interval median_interval(std::vector<double> values);

// The time that stands for all ranks (-a).
enum class Average { Rank0 = 0, Mean = 1, Minimum = 2, Maximum = 3 };
double average_of(Average mode, std::span<const double> by_rank);

}  // namespace wreath::perf
