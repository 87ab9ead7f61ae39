// Times, by events in the streams.
#include <fmt/format.h>

#include <algorithm>

#include "perf/common/streamed.hpp"
#include "perf/gpu_perf/bench.hpp"
#include "wreath/units.hpp"

namespace wreath::perf {
namespace {

constexpr std::size_t kLeastBytes = 8;
constexpr std::size_t kStep = 8;
constexpr int kGraphCalls = 100;
constexpr std::size_t kMostGraphBytes = 32 * 1024;

std::vector<std::size_t> sizes_to(std::size_t most) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = kLeastBytes; bytes < most; bytes *= kStep) sizes.push_back(bytes);
  sizes.push_back(most);
  return sizes;
}

double gb_per_s(double bytes, double ns) { return ns > 0 ? bytes / ns : 0; }

// Of one copy of `bytes` bytes, the average of several.
Result<double> copy_ns(const GpuSetup& setup, std::size_t bytes) {
  const auto own = OnStream::make(setup, bytes, bytes);
  if (!own) return own.error();
  const auto copies = [&](int times) -> Status {
    for (int i = 0; i < times; ++i) WREATH_TRY(own->stream->copy(own->output.data(), own->input.data(), bytes));
    return {};
  };
  WREATH_TRY(copies(1));
  const auto taken = time_on(*own->stream, [&] { return copies(setup.iterations); });
  if (!taken) return taken.error();
  return static_cast<double>(*taken) / setup.iterations;
}

CallShape all_reduce_of(std::size_t bytes) { return {Collective::AllReduce, bytes / sizeof(float), bytes, bytes}; }

// `origin` captures `branch(i)` for each of `branches`, which fork from it and join it.
Result<std::unique_ptr<Graph>> capture(Stream& origin, std::vector<OnStream>& branches,
                                       const std::function<Status(std::size_t)>& branch) {
  auto fork = origin.device().make_event();
  if (!fork) return fork.error();
  WREATH_TRY(origin.begin_capture());
  WREATH_TRY(origin.record(**fork));
  for (std::size_t i = 0; i < branches.size(); ++i) {
    Stream& own = *branches[i].stream;
    WREATH_TRY(own.wait(**fork));
    WREATH_TRY(branch(i));
    auto join = origin.device().make_event();
    if (!join) return join.error();
    WREATH_TRY(own.record(**join));
    WREATH_TRY(origin.wait(**join));
  }
  return origin.end_capture();
}

Result<double> launch_ns(const GpuSetup& setup, Stream& stream, Graph& graph) {
  WREATH_TRY(graph.launch(stream));
  WREATH_TRY(stream.synchronize());
  const auto taken = time_on(stream, [&]() -> Status {
    for (int i = 0; i < setup.iterations; ++i) WREATH_TRY(graph.launch(stream));
    return {};
  });
  if (!taken) return taken.error();
  return static_cast<double>(*taken) / setup.iterations;
}

// Of one launch: with `calls` calls of `bytes` bytes in the branch of each rank, or none, but a copy of 8 bytes.
Result<double> graph_ns(const GpuSetup& setup, std::vector<Communicator>& ranks, std::size_t bytes, int calls) {
  auto origin = setup.device->make_stream();
  if (!origin) return origin.error();
  std::vector<OnStream> branches;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    auto made = OnStream::make(setup, bytes, bytes);
    if (!made) return made.error();
    branches.push_back(*std::move(made));
  }
  auto graph = capture(**origin, branches, [&](std::size_t rank) -> Status {
    const OnStream& own = branches[rank];
    const Call call = own.call(Collective::AllReduce, DataType::Float32, bytes / sizeof(float));
    if (calls == 0) return own.stream->copy(own.output.data(), own.input.data(), kLeastBytes);
    for (int i = 0; i < calls; ++i) WREATH_TRY(ranks[rank].start(call));
    return {};
  });
  if (!graph) return graph.error();
  return launch_ns(setup, **origin, **graph);
}

}  // namespace

Result<PartReport> measure_copies(const GpuSetup& setup) {
  PartReport report;
  for (const std::size_t bytes : sizes_to(setup.most_bytes)) {
    const auto ns = copy_ns(setup, bytes);
    if (!ns) return ns.error();
    fmt::print("copy        {:>10}  {:>10.2f} us  {:>8.2f} GB/s\n", format_bytes(bytes), *ns / 1e3,
               gb_per_s(static_cast<double>(bytes), *ns));
    report.json.push_back(
        {{"bytes", bytes}, {"us", *ns / 1e3}, {"gb_per_s", gb_per_s(static_cast<double>(bytes), *ns)}});
  }
  return report;
}

Result<PartReport> measure_all_reduce(const GpuSetup& setup) {
  PartReport report;
  const auto copied = copy_ns(setup, setup.most_bytes);
  if (!copied) return copied.error();
  const double limit = gb_per_s(static_cast<double>(setup.most_bytes), *copied);
  fmt::print("copies of {}: {:.2f} GB/s; all_reduce moves 2 n S bytes (two_shot)\n", format_bytes(setup.most_bytes),
             limit);
  for (const int n : setup.ranks) {
    auto ranks = make_ranks(setup, n);
    if (!ranks) return ranks.error();
    for (const std::size_t bytes : sizes_to(setup.most_bytes)) {
      const auto ns = call_ns(setup, *ranks, all_reduce_of(bytes));
      if (!ns) return ns.error();
      const double moved = gb_per_s(2.0 * n * static_cast<double>(bytes), *ns);
      fmt::print("all_reduce  {:>10}  {:>10.2f} us  {:>8.2f} GB/s  {:>5.1f}% of the copies, {} ranks\n",
                 format_bytes(bytes), *ns / 1e3, moved, 100 * moved / limit, n);
      report.json.push_back({{"ranks", n},
                             {"bytes", bytes},
                             {"us", *ns / 1e3},
                             {"gb_per_s", moved},
                             {"copy_gb_per_s", limit},
                             {"of_copies", moved / limit}});
    }
  }
  return report;
}

Result<PartReport> measure_graph(const GpuSetup& setup) {
  PartReport report;
  const int n = *std::max_element(setup.ranks.begin(), setup.ranks.end());
  auto ranks = make_ranks(setup, n);
  if (!ranks) return ranks.error();
  const auto empty = graph_ns(setup, *ranks, kLeastBytes, 0);
  if (!empty) return empty.error();
  fmt::print("graph of {} branches, a copy of 8 bytes each: {:.2f} us a launch\n", n, *empty / 1e3);
  for (const std::size_t bytes : sizes_to(std::min(setup.most_bytes, kMostGraphBytes))) {
    const auto ns = graph_ns(setup, *ranks, bytes, kGraphCalls);
    if (!ns) return ns.error();
    const double each_us = *ns / 1e3 / kGraphCalls;
    fmt::print("graph       {:>10}  {:>10.2f} us an all_reduce, average of {}, {} ranks\n", format_bytes(bytes),
               each_us, kGraphCalls, n);
    report.json.push_back(
        {{"ranks", n}, {"bytes", bytes}, {"calls", kGraphCalls}, {"us", each_us}, {"empty_launch_us", *empty / 1e3}});
  }
  return report;
}

}  // namespace wreath::perf
