// Measures small calls: graphs of 100 all_reduces, with a branch for each rank, and the parts of a call's time.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "perf/base/kernels.hpp"
#include "perf/base/ping_pong.hpp"
#include "perf/base/statistics.hpp"
#include "perf/base/streamed.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "wreath/units.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kGraphLeastBytes = 8;
constexpr std::size_t kGraphMostBytes = 32 * 1024;
constexpr std::size_t kGraphStep = 4;
constexpr int kGraphRounds = 3;
constexpr int kThreads = 256;  // of a kernel that does nothing
constexpr std::uint64_t kStallNs = 2'000'000'000;

int calls_of(const GpuSetup& setup) { return setup.quick ? 5 : 100; }

// Captures `branch(i)` for each of `branches` into `origin`. The branches fork from `origin` and join it.
Result<std::unique_ptr<Graph>> capture(Stream& origin, const std::vector<OnStream>& branches,
                                       const std::function<Status(std::size_t)>& branch) {
  auto fork = origin.device().make_event();
  if (!fork) return fork.error();
  std::vector<std::unique_ptr<Event>> joins;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    auto join = origin.device().make_event();
    if (!join) return join.error();
    joins.push_back(*std::move(join));
  }
  WREATH_TRY(origin.begin_capture());
  Status added = origin.record(**fork);
  for (std::size_t i = 0; added && i < branches.size(); ++i) {
    Stream& own = *branches[i].stream;
    added = own.wait(**fork);
    if (added) added = branch(i);
    if (added) added = own.record(*joins[i]);
    if (added) added = origin.wait(*joins[i]);
  }
  auto graph = origin.end_capture();
  WREATH_TRY(added);
  return graph;
}

// Returns the time of one launch, as the median of the rounds.
Result<double> launch_ns(const GpuSetup& setup, Stream& stream, Graph& graph) {
  const auto launches = [&](int times) {
    return time_on(stream, [&]() -> Status {
      for (int i = 0; i < times; ++i) WREATH_TRY(graph.launch(stream));
      return {};
    });
  };
  const auto first = launches(2);
  if (!first) return first.error();
  const int times = times_for(setup, *first / 2);
  std::vector<double> rounds;
  for (int round = 0; round < (setup.quick ? 1 : kGraphRounds); ++round) {
    const auto taken = launches(times);
    if (!taken) return taken.error();
    rounds.push_back(static_cast<double>(*taken) / times);
  }
  return median(rounds);
}

// Returns the time of one launch of a graph with a branch for each of `branches`.
Result<double> graph_ns(const GpuSetup& setup, const std::vector<OnStream>& branches,
                        const std::function<Status(std::size_t)>& branch) {
  auto origin = setup.device->make_stream();
  if (!origin) return origin.error();
  const auto graph = capture(**origin, branches, branch);
  if (!graph) return graph.error();
  return launch_ns(setup, **origin, **graph);
}

// Returns the time of a graph whose branches have `kernels` kernels that do nothing, one after the other.
Result<double> nothing_ns(const GpuSetup& setup, const std::vector<OnStream>& branches, int kernels) {
  const NothingRun run{};
  const int threads = setup.device == &host_device() ? 1 : kThreads;
  return graph_ns(setup, branches, [&](std::size_t i) -> Status {
    for (int k = 0; k < kernels; ++k) {
      WREATH_TRY(launch(*branches[i].stream, nothing_kernel(), {1, threads, &run, sizeof run}));
    }
    return {};
  });
}

// Returns the time of a flag from one block to another: half of a round trip, as the average of many.
Result<double> flag_ns(const GpuSetup& setup) {
  constexpr std::size_t kApart = 256;
  Device& device = *setup.device;
  const std::uint32_t rounds = setup.quick ? 20 : 2000;
  const auto words = device.allocate(2 * kApart);
  if (!words) return words.error();
  const auto answered = device.allocate(sizeof(std::uint32_t), MemoryUse::Pinned);
  if (!answered) return answered.error();
  auto stream = device.make_stream();
  if (!stream) return stream.error();
  const auto word = [&](std::size_t i) {
    return reinterpret_cast<FlaggedWord*>(address_in_kernels(device, words->data() + i * kApart));
  };
  const PingPongRun run{{word(0), word(1)}, rounds, kStallNs, reinterpret_cast<std::uint32_t*>(answered->data())};
  const auto taken = time_on(**stream, [&] { return launch(**stream, ping_pong_kernel(), {2, 1, &run, sizeof run}); });
  if (!taken) return taken.error();
  std::uint32_t seen = 0;
  std::memcpy(&seen, answered->data(), sizeof seen);
  if (seen != rounds) return Error{ErrorCode::System, fmt::format("a flag did not arrive in round {}", seen + 1)};
  return static_cast<double>(*taken) / (2.0 * rounds);
}

// The parts of the time of a small call, as far as they can be measured separately.
struct Costs {
  // The launch of a graph with as many branches, each with one kernel that does nothing.
  double empty_launch_us = 0;
  // The time that one more such kernel adds to each branch: its launch and exit.
  double kernel_us = 0;
  // The time of a flag from one block to another.
  double flag_us = 0;
};

Result<Costs> measure_costs(const GpuSetup& setup, int n) {
  const auto branches = make_streams(setup, n, kGraphLeastBytes, kGraphLeastBytes);
  if (!branches) return branches.error();
  const int calls = calls_of(setup);
  const auto one = nothing_ns(setup, *branches, 1);
  if (!one) return one.error();
  const auto many = nothing_ns(setup, *branches, calls);
  if (!many) return many.error();
  const auto flag = flag_ns(setup);
  if (!flag) return flag.error();
  return Costs{*one / 1e3, (*many - *one) / 1e3 / (calls - 1), *flag / 1e3};
}

struct SmallCase {
  bool low_latency;
  std::size_t bytes;
  std::string text() const { return fmt::format("{} bytes, {}", bytes, low_latency ? "low latency" : "by steps"); }
};

// Returns a call's time with its parts. `costs` is null where the parts could not be measured.
Json row_of(const SmallCase& work, int n, int calls, double us, const std::string& plan, const Costs* costs) {
  Json row{{"ranks", n},   {"bytes", work.bytes}, {"low_latency", work.low_latency},
           {"plan", plan}, {"calls", calls},      {"us", us}};
  if (costs == nullptr) return row;
  row["empty_launch_us"] = costs->empty_launch_us;
  if (!work.low_latency) return row;
  const int flights = plan.starts_with("two_shot") ? 2 : 1;
  const double rest = us - costs->kernel_us - flights * costs->flag_us;
  row["parts"] = {{"kernel_launch_and_exit_us", costs->kernel_us},
                  {"flag_flight_us", costs->flag_us},
                  {"flag_flights", flights},
                  {"data_and_waiting_us", rest}};
  fmt::print(
      "{:24}of these {:.2f} us a kernel's launch and exit, {} x {:.2f} us a flag's flight, {:.2f} us the rest: "
      "data, sums, waiting\n",
      "", costs->kernel_us, flights, costs->flag_us, rest);
  return row;
}

Status measure_small(const GpuSetup& setup, std::vector<Communicator>& ranks, const SmallCase& work, const Costs* costs,
                     Results& results) {
  const int n = static_cast<int>(ranks.size());
  const int calls = calls_of(setup);
  const auto branches = make_streams(setup, n, work.bytes, work.bytes);
  if (!branches) return branches.error();
  const PatternSet data(DataType::Float32, ReduceOp::Sum, n);
  WREATH_TRY(fill_inputs(*branches, data, work.bytes));
  const auto ns = graph_ns(setup, *branches, [&](std::size_t rank) -> Status {
    const Call call = (*branches)[rank].call(Collective::AllReduce, DataType::Float32, work.bytes / sizeof(float));
    for (int i = 0; i < calls; ++i) WREATH_TRY(ranks[rank].start(call));
    return {};
  });
  if (!ns) return ns.error();
  const auto wrong = count_wrong_sums(*branches, data, work.bytes);
  if (!wrong) return wrong.error();
  if (*wrong > 0) results.fail(work.text(), fmt::format("{} elements are wrong", *wrong));
  const double us = *ns / 1e3 / calls;
  const std::string plan = ranks.front().plan_for(Collective::AllReduce, work.bytes);
  fmt::print("graph       {:>10}  {:>10.2f} us an all_reduce, average of {}, {} ranks, {}\n", format_bytes(work.bytes),
             us, calls, n, plan);
  results.add(row_of(work, n, calls, us, plan, costs));
  return {};
}

// Measures small calls, by kernels of their own or by steps.
Status measure_small_calls(const GpuSetup& setup, int n, bool low_latency, const Costs* costs, Results& results) {
  auto ranks = low_latency ? make_low_latency_ranks(setup, n) : make_ranks(setup, n);
  if (!ranks) return ranks.error();
  for (std::size_t bytes = kGraphLeastBytes; bytes <= std::min(setup.most_bytes, kGraphMostBytes);
       bytes *= kGraphStep) {
    const SmallCase work{low_latency, bytes};
    if (results.time_for(work.text())) WREATH_TRY(measure_small(setup, *ranks, work, costs, results));
  }
  return {};
}

}  // namespace

Status measure_graph(const GpuSetup& setup, Results& results) {
  const int n = *std::max_element(setup.ranks.begin(), setup.ranks.end());
  const auto costs = measure_costs(setup, n);
  if (!costs) results.note("what a small call is made of", costs.error());
  if (costs) {
    fmt::print(
        "graph       of {} branches, a kernel each that does nothing: {:.2f} us a launch; each more {:.2f} us; "
        "a flag's flight {:.2f} us\n",
        n, costs->empty_launch_us, costs->kernel_us, costs->flag_us);
  }
  for (const bool low_latency : {true, false}) {
    if (std::find(setup.low_latency.begin(), setup.low_latency.end(), low_latency) == setup.low_latency.end()) continue;
    const Status measured = measure_small_calls(setup, n, low_latency, costs ? &*costs : nullptr, results);
    if (!measured) results.note(low_latency ? "small calls, low latency" : "small calls by steps", measured.error());
  }
  return {};
}

}  // namespace wreath::perf
