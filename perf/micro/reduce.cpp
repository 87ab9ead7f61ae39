// Measures combinations and casts by every instruction set of this machine. There are float32 sums of 2, 4 and 8
// sources at three levels of the memory. In the second level there is every dtype with every operator. There are also
// casts of each dtype that has another dtype for its sums, to that dtype and back.
#include <fmt/format.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/micro/memory_share.hpp"

namespace wreath::perf {
namespace {

// The combination of a benchmark.
struct Combination {
  Arithmetic arithmetic;
  Operands operands{};
  Form target = Form::Data;
};

std::size_t width(const Combination& of, Form form) {
  const DataType dtype = of.arithmetic.dtype;
  return size_of(form == Form::Data ? dtype : accumulator_of(dtype));
}

// Combines k sources of the given bytes each.
void run_reduce(benchmark::State& state, const Combination& of) {
  const auto k = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const std::size_t elements = bytes / width(of, of.operands.messages);
  const std::size_t written = elements * width(of, of.target);
  const Pages target(written);
  std::vector<Pages> pages;
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i < k; ++i) sources.push_back(pages.emplace_back(bytes).data());
  run_kernel(state, k * bytes + written, k > 1 ? Yardstick::Reduce : Yardstick::Copy, [&] {
    of.arithmetic.combine(of.arithmetic, target.data(), of.target, sources.data(), static_cast<int>(k), of.operands,
                          elements);
  });
}

void register_row(const std::string& name, const Combination& of, const std::vector<std::int64_t>& sources,
                  const std::vector<std::int64_t>& sizes) {
  benchmark::RegisterBenchmark(name.c_str(), run_reduce, of)->ArgNames({"k", "bytes"})->ArgsProduct({sources, sizes});
}

Combination with(const CombineTarget& target, DataType dtype, ReduceOp op) {
  Combination of{arithmetic(dtype, op, 8)};
  of.arithmetic.combine = target.combine;
  return of;
}

void register_casts(const CombineTarget& target, DataType dtype) {
  const Combination plain = with(target, dtype, ReduceOp::Sum);
  const Combination widen{plain.arithmetic, {}, Form::Partial};
  const Combination narrow{plain.arithmetic, {Form::Partial, -1, Form::Data}, Form::Data};
  // A hop adds this rank's own input to a sum.
  const Combination hop{plain.arithmetic, {Form::Partial, 0, Form::Data}, Form::Partial};
  register_row(fmt::format("cast/{}/widen/{}", name(dtype), target.name), widen, {1}, {kL2Bytes});
  register_row(fmt::format("cast/{}/narrow/{}", name(dtype), target.name), narrow, {1}, {kL2Bytes});
  register_row(fmt::format("reduce/{}/hop/{}", name(dtype), target.name), hop, {2}, {kL2Bytes});
}

}  // namespace

void register_reduce() {
  std::array<CombineTarget, 16> all{};
  const std::span<const CombineTarget> targets(all.data(), combine_targets(all.data(), all.size()));
  for (const CombineTarget& target : targets) {
    register_row(fmt::format("reduce/{}", target.name), with(target, DataType::Float32, ReduceOp::Sum), {2, 4, 8},
                 {kL1Bytes, kL2Bytes, kDramBytes});
  }
  for (const DataType dtype : all_dtypes()) {
    for (const CombineTarget& target : targets) {
      for (const ReduceOp op : all_ops()) {
        register_row(fmt::format("reduce/{}/{}/{}", name(dtype), name(op), target.name), with(target, dtype, op), {2},
                     {kL2Bytes});
      }
      if (accumulator_of(dtype) != dtype) register_casts(target, dtype);
    }
  }
}

}  // namespace wreath::perf
