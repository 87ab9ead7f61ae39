// Combinations by every instruction set of this machine: float32 sums of 2, 4 and 8 sources, and a row per dtype.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/micro/buffers.hpp"

namespace wreath::perf {
namespace {

// What a benchmark combines; its target has the messages' form.
struct Combination {
  Arithmetic arithmetic;
  Operands operands{};
};

// Bytes read and written per second. `bytes` are those of one message.
void run_reduce(benchmark::State& state, const Combination& of) {
  const auto k = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const DataType dtype = of.arithmetic.dtype;
  const std::size_t width = size_of(of.operands.messages == Form::Data ? dtype : accumulator_of(dtype));
  std::vector<Pages> pages;
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i <= k; ++i) pages.emplace_back(bytes);
  for (std::size_t i = 1; i <= k; ++i) sources.push_back(pages[i].data());
  for (auto _ : state) {
    of.arithmetic.combine(of.arithmetic, pages[0].data(), of.operands.messages, sources.data(), static_cast<int>(k),
                          of.operands, bytes / width);
    benchmark::ClobberMemory();
  }
  count_bytes(state, static_cast<std::int64_t>((k + 1) * bytes));
}

void register_row(const std::string& name, const Combination& of, const std::vector<std::int64_t>& sizes) {
  benchmark::RegisterBenchmark(name.c_str(), run_reduce, of)->ArgNames({"k", "bytes"})->ArgsProduct({{2, 4, 8}, sizes});
}

}  // namespace

void register_reduce() {
  std::array<CombineTarget, 16> targets{};
  const std::size_t count = combine_targets(targets.data(), targets.size());
  for (std::size_t i = 0; i < count; ++i) {
    Combination sum{arithmetic(DataType::Float32, ReduceOp::Sum, 8)};
    sum.arithmetic.combine = targets[i].combine;
    register_row(fmt::format("reduce/{}", targets[i].name), sum, {kL1Bytes, kL2Bytes, kDramBytes});
  }
  for (const DataType dtype : all_dtypes()) {
    for (const ReduceOp op : all_ops()) {
      const Combination of{arithmetic(dtype, op, 8)};
      register_row(fmt::format("reduce/{}/{}", name(dtype), name(op)), of, {kL2Bytes});
    }
    const Operands hop{Form::Partial, 0, Form::Data};  // the own input into a partial sum
    if (accumulator_of(dtype) == dtype) continue;
    register_row(fmt::format("reduce/{}/hop", name(dtype)), {arithmetic(dtype, ReduceOp::Sum, 8), hop}, {kL2Bytes});
  }
}

}  // namespace wreath::perf
