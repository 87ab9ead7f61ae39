// Times steps beside handwritten loops, with the same schedules, FIFOs and memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "perf/base/statistics.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "wreath/units.hpp"

namespace wreath::perf {
namespace {

constexpr int kExecutorRounds = 5;
constexpr std::size_t kTileBytes = std::size_t{256} << 10;
constexpr std::size_t kLargeBytes = std::size_t{64} << 20;
constexpr std::size_t kExecutorMostBytes = std::size_t{256} << 20;
constexpr double kTileTarget = 1.10;
constexpr double kLargeTarget = 1.03;

struct Schedule {
  Collective collective;
  std::string_view algorithm;
};
constexpr std::array kSchedules{Schedule{Collective::AllReduce, "two_shot"}, Schedule{Collective::AllReduce, "ring"},
                                Schedule{Collective::ReduceScatter, "ring"}, Schedule{Collective::AllGather, "ring"}};

// Returns one tile for each part, and the large sizes.
std::vector<std::size_t> sizes_of(const GpuSetup& setup, int ranks) {
  std::vector<std::size_t> sizes;
  for (const std::size_t bytes : {kTileBytes * static_cast<std::size_t>(ranks), kLargeBytes, kExecutorMostBytes}) {
    const std::size_t least = std::min(bytes, setup.most_bytes);
    if (sizes.empty() || least > sizes.back()) sizes.push_back(least);
  }
  return sizes;
}

// Returns the shape of a call. `bytes` is the size of the whole vector, which all ranks together give or make.
CallShape shape_of(Collective collective, std::size_t bytes, int ranks) {
  const std::size_t share = bytes / sizeof(float) / static_cast<std::size_t>(ranks);
  const std::size_t whole = share * static_cast<std::size_t>(ranks);
  const std::size_t input = collective == Collective::AllGather ? share : whole;
  const std::size_t output = collective == Collective::ReduceScatter ? share : whole;
  return {collective, DataType::Float32, collective == Collective::AllReduce ? whole : share, input * sizeof(float),
          output * sizeof(float)};
}

struct ExecutorPair {
  std::vector<Communicator> steps;
  std::vector<Communicator> handwritten;
};

Result<ExecutorPair> make_executors(const GpuSetup& setup, int ranks, std::string_view algorithm) {
  ExecutorPair pair;
  for (auto* made : {&pair.steps, &pair.handwritten}) {
    CommunicatorOptions options;
    options.overrides.algorithm = algorithm;
    options.overrides.tile_bytes = kTileBytes;
    options.overrides.executor = made == &pair.steps ? "steps" : "handwritten";
    auto communicators = make_ranks(setup, ranks, options);
    if (!communicators) return communicators.error();
    *made = *std::move(communicators);
  }
  return pair;
}

struct Times {
  double steps_ns;
  double handwritten_ns;
  // The ratio of steps to handwritten loops: the median of the rounds' ratios.
  double ratio;
};

Result<Times> time_both(const GpuSetup& setup, ExecutorPair& pair, const CallShape& shape) {
  const auto streams = make_streams(setup, static_cast<int>(pair.steps.size()), shape.input_bytes, shape.output_bytes);
  if (!streams) return streams.error();
  std::vector<double> steps;
  std::vector<double> handwritten;
  std::vector<double> ratios;
  for (int round = 0; round < (setup.quick ? 1 : kExecutorRounds); ++round) {
    const auto by_steps = call_ns(setup, pair.steps, *streams, shape);
    if (!by_steps) return by_steps.error();
    const auto by_hand = call_ns(setup, pair.handwritten, *streams, shape);
    if (!by_hand) return by_hand.error();
    steps.push_back(*by_steps);
    handwritten.push_back(*by_hand);
    ratios.push_back(*by_hand > 0 ? *by_steps / *by_hand : 0);
  }
  return Times{median(steps), median(handwritten), median(ratios)};
}

// The worst ratios so far, which the targets judge.
struct Worst {
  std::optional<Target> tile;
  std::optional<Target> large;

  void take(const std::string& what, bool is_large, double ratio) {
    std::optional<Target>& target = is_large ? large : tile;
    if (target && target->measured >= ratio) return;
    target = Target{fmt::format("{}, the worst: {}", is_large ? "64 MiB and more" : "one tile", what),
                    is_large ? kLargeTarget : kTileTarget, ratio, "of the time by hand"};
  }
};

Status measure_schedule(const GpuSetup& setup, int n, const Schedule& schedule, Worst& worst, Results& results) {
  std::optional<ExecutorPair> pair;
  for (const std::size_t bytes : sizes_of(setup, n)) {
    const std::string what =
        fmt::format("{} {}, {} ranks, {}", name(schedule.collective), schedule.algorithm, n, format_bytes(bytes));
    if (!results.time_for(what)) continue;
    if (!pair) {
      auto made = make_executors(setup, n, schedule.algorithm);
      if (!made) return made.error();
      pair = *std::move(made);
    }
    const auto times = time_both(setup, *pair, shape_of(schedule.collective, bytes, n));
    if (!times) return times.error();
    fmt::print("executors   {:>10}  {:>10.2f} us by steps  {:>10.2f} us by hand  {:>6.3f}  {} {}, {} ranks\n",
               format_bytes(bytes), times->steps_ns / 1e3, times->handwritten_ns / 1e3, times->ratio,
               name(schedule.collective), schedule.algorithm, n);
    results.add({{"collective", name(schedule.collective)},
                 {"algorithm", schedule.algorithm},
                 {"ranks", n},
                 {"bytes", bytes},
                 {"steps_us", times->steps_ns / 1e3},
                 {"handwritten_us", times->handwritten_ns / 1e3},
                 {"steps_to_handwritten", times->ratio}});
    worst.take(what, bytes >= kLargeBytes, times->ratio);
  }
  return {};
}

}  // namespace

Status measure_executors(const GpuSetup& setup, Results& results) {
  Worst worst;
  for (const Schedule& schedule : kSchedules) {
    for (const int n : setup.ranks) {
      const Status measured = measure_schedule(setup, n, schedule, worst, results);
      if (measured) continue;
      results.note(fmt::format("{} {}, {} ranks", name(schedule.collective), schedule.algorithm, n), measured.error());
    }
  }
  for (const auto& target : {worst.large, worst.tile}) {
    if (target) results.judge(*target);
  }
  return {};
}

}  // namespace wreath::perf
