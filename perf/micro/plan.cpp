// Measures the way from a call to its plan. There are the test for a repeated call, the choice of row and tile, and the
// first creation of a plan.
#include <fmt/format.h>

#include <array>

#include "perf/micro/buffers.hpp"
#include "src/engine/repeated_call.hpp"
#include "src/schedule/lower.hpp"
#include "src/tuner/tuner.hpp"
#include "wreath/algorithm.hpp"

namespace wreath::perf {
namespace {

void run_repeated(benchmark::State& state) {
  std::array<float, 256> input{};
  std::array<float, 256> output{};
  Call call;
  call.collective = Collective::AllReduce;
  call.dtype = DataType::Float32;
  call.count = input.size();
  call.input = reinterpret_cast<const std::byte*>(input.data());
  call.output = reinterpret_cast<std::byte*>(output.data());
  RepeatedCall last;
  last.remember(call, {2, 0}, {}, {});
  bool same = true;
  for (auto _ : state) {
    benchmark::DoNotOptimize(call);
    same = same && last.is(call);
  }
  if (!same) state.SkipWithError("a repeated call was not recognized");
}

void run_choose(benchmark::State& state, Collective collective) {
  const TunerContext context = plain_context(static_cast<int>(state.range(0)), "", true);
  Query query;
  query.collective = collective;
  query.bytes = static_cast<std::size_t>(state.range(1));
  for (auto _ : state) {
    benchmark::DoNotOptimize(query);
    benchmark::DoNotOptimize(choose(context, query));
  }
}

void run_make(benchmark::State& state, const Algorithm& algorithm) {
  const Problem problem{algorithm.collective, static_cast<int>(state.range(0)), 0};
  if (!algorithm.supports(problem)) return state.SkipWithError("the row does not serve so many ranks");
  for (auto _ : state) benchmark::DoNotOptimize(lower(algorithm.build(problem, 0), 0, 1).value());
}

}  // namespace

void register_plans() {
  benchmark::RegisterBenchmark("plan/repeated", run_repeated);
  for (const Collective collective : {Collective::AllReduce, Collective::AllGather, Collective::Broadcast}) {
    benchmark::RegisterBenchmark(fmt::format("plan/choose/{}", name(collective)).c_str(), run_choose, collective)
        ->ArgNames({"ranks", "bytes"})
        ->ArgsProduct({{2, 8}, {1 << 10, 1 << 20}});
  }
  for (const Algorithm& each : algorithms()) {
    if (each.collective != Collective::AllReduce) continue;
    benchmark::RegisterBenchmark(fmt::format("plan/make/{}", each.name).c_str(), run_make, each)
        ->ArgName("ranks")
        ->Arg(2)
        ->Arg(8)
        ->Arg(64);
  }
}

}  // namespace wreath::perf
