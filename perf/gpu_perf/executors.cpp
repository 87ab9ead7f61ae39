// Steps beside loops written by hand: the same schedules, FIFOs and memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "perf/common/statistics.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "wreath/units.hpp"

namespace wreath::perf {
namespace {

constexpr int kRounds = 5;
constexpr std::size_t kTileBytes = std::size_t{256} << 10;
constexpr std::size_t kLargeBytes = std::size_t{64} << 20;

struct Schedule {
  Collective collective;
  std::string_view algorithm;
};
constexpr std::array kSchedules{Schedule{Collective::AllReduce, "two_shot"}, Schedule{Collective::AllReduce, "ring"},
                                Schedule{Collective::ReduceScatter, "ring"}, Schedule{Collective::AllGather, "ring"}};

// One tile of each part, and large ones.
std::vector<std::size_t> sizes_of(const GpuSetup& setup, int ranks) {
  std::vector<std::size_t> sizes;
  for (const std::size_t bytes : {kTileBytes * static_cast<std::size_t>(ranks), kLargeBytes, setup.most_bytes}) {
    const std::size_t least = std::min(bytes, setup.most_bytes);
    if (sizes.empty() || least > sizes.back()) sizes.push_back(least);
  }
  return sizes;
}

// `bytes`: of the whole vector, which all ranks have or make together.
CallShape shape_of(Collective collective, std::size_t bytes, int ranks) {
  const std::size_t share = bytes / sizeof(float) / static_cast<std::size_t>(ranks);
  const std::size_t whole = share * static_cast<std::size_t>(ranks);
  const std::size_t input = collective == Collective::AllGather ? share : whole;
  const std::size_t output = collective == Collective::ReduceScatter ? share : whole;
  return {collective, collective == Collective::AllReduce ? whole : share, input * sizeof(float),
          output * sizeof(float)};
}

struct Pair {
  std::vector<Communicator> steps;
  std::vector<Communicator> straight;
};

Result<Pair> make_pair_of(const GpuSetup& setup, int ranks, std::string_view algorithm) {
  Pair pair;
  for (auto* made : {&pair.steps, &pair.straight}) {
    CommunicatorOptions options;
    options.algorithm = algorithm;
    options.tile_bytes = kTileBytes;
    options.executor = made == &pair.steps ? "steps" : "straight";
    auto communicators = make_ranks(setup, ranks, options);
    if (!communicators) return communicators.error();
    *made = *std::move(communicators);
  }
  return pair;
}

struct Times {
  double steps_ns;
  double straight_ns;
  double ratio;  // steps to straight, the median of the rounds' own
};

Result<Times> time_both(const GpuSetup& setup, Pair& pair, const CallShape& shape) {
  std::vector<double> steps;
  std::vector<double> straight;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    const auto by_steps = call_ns(setup, pair.steps, shape);
    if (!by_steps) return by_steps.error();
    const auto by_hand = call_ns(setup, pair.straight, shape);
    if (!by_hand) return by_hand.error();
    steps.push_back(*by_steps);
    straight.push_back(*by_hand);
    ratios.push_back(*by_hand > 0 ? *by_steps / *by_hand : 0);
  }
  return Times{median(steps), median(straight), median(ratios)};
}

}  // namespace

Result<PartReport> measure_executors(const GpuSetup& setup) {
  PartReport report;
  for (const int n : setup.ranks) {
    for (const Schedule& schedule : kSchedules) {
      auto pair = make_pair_of(setup, n, schedule.algorithm);
      if (!pair) return pair.error();
      for (const std::size_t bytes : sizes_of(setup, n)) {
        const auto times = time_both(setup, *pair, shape_of(schedule.collective, bytes, n));
        if (!times) return times.error();
        fmt::print("executors   {:>10}  {:>10.2f} us by steps  {:>10.2f} us by hand  {:>5.2f}  {} {}, {} ranks\n",
                   format_bytes(bytes), times->steps_ns / 1e3, times->straight_ns / 1e3, times->ratio,
                   name(schedule.collective), schedule.algorithm, n);
        report.json.push_back({{"collective", name(schedule.collective)},
                               {"algorithm", schedule.algorithm},
                               {"ranks", n},
                               {"bytes", bytes},
                               {"steps_us", times->steps_ns / 1e3},
                               {"straight_us", times->straight_ns / 1e3},
                               {"steps_to_straight", times->ratio}});
      }
    }
  }
  return report;
}

}  // namespace wreath::perf
