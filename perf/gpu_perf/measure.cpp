// Times copies and all_reduce by events in the streams.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "perf/base/statistics.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "wreath/units.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kMeasureLeastBytes = 8;
constexpr std::size_t kMeasureStep = 8;
constexpr std::size_t kTargetBytes = std::size_t{256} << 20;
constexpr double kTargetOfCopies = 0.85;
constexpr int kMeasureRounds = 3;
constexpr std::array kMeasureDtypes{DataType::Float32, DataType::BFloat16};

// Returns the small sizes below `end`.
std::vector<std::size_t> sizes_below(std::size_t end) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = kMeasureLeastBytes; bytes < end; bytes *= kMeasureStep) sizes.push_back(bytes);
  return sizes;
}

// Returns the size that the target is for, and the largest size.
std::vector<std::size_t> large_sizes(const GpuSetup& setup) {
  if (setup.most_bytes <= kTargetBytes) return {setup.most_bytes};
  return {kTargetBytes, setup.most_bytes};
}

struct AllReduceCase {
  int ranks;
  DataType dtype;
  std::size_t bytes;
  std::string text() const { return fmt::format("{}, {} ranks, {}", name(dtype), ranks, format_bytes(bytes)); }
};

struct AllReduceTimes {
  double ns;
  double copy_gb_per_s;
  // The bandwidth as a share of the copies' bandwidth: the median of rounds that measure both.
  double of_copies;
};

Result<AllReduceTimes> time_in_turns(const GpuSetup& setup, std::vector<Communicator>& ranks,
                                     const std::vector<OnStream>& streams, const AllReduceCase& work) {
  const auto bytes = static_cast<double>(work.bytes);
  const CallShape shape{Collective::AllReduce, work.dtype, work.bytes / size_of(work.dtype), work.bytes, work.bytes};
  std::vector<double> times;
  std::vector<double> copies;
  std::vector<double> shares;
  for (int round = 0; round < (setup.quick ? 1 : kMeasureRounds); ++round) {
    const auto copied = copy_ns(setup, streams.front(), work.bytes);
    if (!copied) return copied.error();
    const auto called = call_ns(setup, ranks, streams, shape);
    if (!called) return called.error();
    times.push_back(*called);
    copies.push_back(gb_per_s(bytes, *copied));
    shares.push_back(*copied > 0 ? gb_per_s(2.0 * work.ranks * bytes, *called) / copies.back() : 0);
  }
  return AllReduceTimes{median(times), median(copies), median(shares)};
}

Status measure_case(const GpuSetup& setup, std::vector<Communicator>& ranks, const AllReduceCase& work, bool large,
                    Results& results) {
  const auto streams = make_streams(setup, work.ranks, work.bytes, work.bytes);
  if (!streams) return results.note(work.text(), streams.error()), Status();
  const PatternSet data(work.dtype, ReduceOp::Sum, work.ranks);
  WREATH_TRY(fill_inputs(*streams, data, work.bytes));
  const auto times = time_in_turns(setup, ranks, *streams, work);
  if (!times) return times.error();
  const auto wrong = count_wrong_sums(*streams, data, work.bytes);
  if (!wrong) return wrong.error();
  if (*wrong > 0) results.fail(work.text(), fmt::format("{} elements are wrong", *wrong));
  const double moved = gb_per_s(2.0 * work.ranks * static_cast<double>(work.bytes), times->ns);
  fmt::print(
      "all_reduce  {:>10}  {:>10.2f} us  {:>8.2f} GB/s of 2 n S  {:>5.1f}% of copies of {:.2f} GB/s  {}, {} ranks\n",
      format_bytes(work.bytes), times->ns / 1e3, moved, 100 * times->of_copies, times->copy_gb_per_s, name(work.dtype),
      work.ranks);
  const bool checked = streams->front().patterns != nullptr;
  results.add({{"ranks", work.ranks},
               {"dtype", name(work.dtype)},
               {"bytes", work.bytes},
               {"us", times->ns / 1e3},
               {"gb_per_s", moved},
               {"copy_gb_per_s", times->copy_gb_per_s},
               {"of_copies", times->of_copies},
               {"wrong", checked ? Json(*wrong) : Json()}});
  if (large) results.judge({work.text(), kTargetOfCopies, times->of_copies, "of the copies' bandwidth", false});
  return {};
}

// Measures all cases on these communicators. An error ends the rest of their cases.
Status measure_ranks(const GpuSetup& setup, int n, bool large, Results& results) {
  auto ranks = make_ranks(setup, n);
  if (!ranks) return ranks.error();
  for (const std::size_t bytes : large ? large_sizes(setup) : sizes_below(large_sizes(setup).front())) {
    for (const DataType dtype : kMeasureDtypes) {
      const AllReduceCase work{n, dtype, bytes};
      if (!large && dtype != DataType::Float32) continue;
      if (results.time_for(work.text())) WREATH_TRY(measure_case(setup, *ranks, work, large, results));
    }
  }
  return {};
}

}  // namespace

Status measure_copies(const GpuSetup& setup, Results& results) {
  std::vector<std::size_t> sizes = sizes_below(large_sizes(setup).front());
  for (const std::size_t bytes : large_sizes(setup)) sizes.push_back(bytes);
  for (const std::size_t bytes : sizes) {
    const auto own = OnStream::make(setup, bytes, bytes);
    if (!own) {
      results.note(format_bytes(bytes), own.error());
      continue;
    }
    const auto ns = copy_ns(setup, *own, bytes);
    if (!ns) return ns.error();
    const double rate = gb_per_s(static_cast<double>(bytes), *ns);
    fmt::print("copy        {:>10}  {:>10.2f} us  {:>8.2f} GB/s\n", format_bytes(bytes), *ns / 1e3, rate);
    results.add({{"bytes", bytes}, {"us", *ns / 1e3}, {"gb_per_s", rate}});
  }
  return {};
}

Status measure_all_reduce(const GpuSetup& setup, Results& results) {
  // The large sizes come first, since the targets are for them.
  for (const bool large : {true, false}) {
    for (const int n : setup.ranks) {
      const Status measured = measure_ranks(setup, n, large, results);
      if (!measured) results.note(fmt::format("{} ranks, {}", n, large ? "large" : "small"), measured.error());
    }
  }
  return {};
}

}  // namespace wreath::perf
