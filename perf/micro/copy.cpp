// Measures the three copies between private buffers. The advantage of `fill` shows only with a reader: see the fifo
// benchmark.
#include "kernels/kernels.hpp"
#include "perf/limits/machine.hpp"
#include "perf/micro/memory_share.hpp"

namespace wreath::perf {
namespace {

void run_copy(benchmark::State& state, CopyKernel kernel) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Pages target(bytes);
  const Pages source(bytes);
  run_kernel(state, 2 * bytes, Yardstick::Copy, [&] { kernel(target.data(), source.data(), bytes); });
}

}  // namespace

void register_copies() {
  struct Row {
    const char* name;
    CopyKernel kernel;
  };
  for (const Row& row : {Row{"copy/plain", copy_kernels().plain}, Row{"copy/fill", copy_kernels().fill},
                         Row{"copy/stream", copy_kernels().stream}}) {
    benchmark::RegisterBenchmark(row.name, run_copy, row.kernel)
        ->ArgName("bytes")
        ->Arg(1 << 10)
        ->Arg(kL1Bytes)
        ->Arg(kL2Bytes)
        ->Arg(kDramBytes);
  }
}

}  // namespace wreath::perf
