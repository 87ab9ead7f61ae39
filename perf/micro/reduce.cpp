// float32 sums of 2, 4 and 8 sources by every instruction set of this machine.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/micro/buffers.hpp"

namespace wreath::perf {
namespace {

// Bytes read and written per second.
void run_reduce(benchmark::State& state, ReduceKernel kernel) {
  const auto k = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  std::vector<Pages> pages;
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i <= k; ++i) pages.emplace_back(bytes);
  for (std::size_t i = 1; i <= k; ++i) sources.push_back(pages[i].data());
  for (auto _ : state) {
    kernel(pages[0].data(), sources.data(), static_cast<int>(k), bytes / sizeof(float));
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<std::int64_t>((k + 1) * bytes));
}

}  // namespace

void register_reduce() {
  std::array<ReduceTarget, 16> targets{};
  const std::size_t count = reduce_targets(DataType::Float32, ReduceOp::Sum, targets.data(), targets.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("reduce/{}", targets[i].name);
    benchmark::RegisterBenchmark(name.c_str(), run_reduce, targets[i].kernel)
        ->ArgNames({"k", "bytes"})
        ->ArgsProduct({{2, 4, 8}, {kL1Bytes, kL2Bytes, kDramBytes}});
  }
}

}  // namespace wreath::perf
