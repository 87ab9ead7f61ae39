// micro: measures the library's kernels, FIFOs, steps and plans alone, and kernels beside the bandwidth of their
// memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "perf/limits/machine.hpp"
#include "perf/limits/memory.hpp"
#include "perf/limits/shm.hpp"
#include "perf/micro/buffers.hpp"

namespace wreath::perf {
namespace {

// Adds the yardsticks to the context that Google Benchmark prints above its table and writes into its JSON.
void add_context() {
  const Machine machine = this_machine();
  const double flight_ns = flag_flight_ns(kQuickEffort);
  benchmark::AddCustomContext("cpu", machine.cpu);
  benchmark::AddCustomContext("flag_one_way_ns", fmt::format("{:.0f} ({})", flight_ns, core_distance(flight_ns)));
  const auto add_bandwidth = [](const char* level, std::size_t bytes) {
    const Bandwidth bandwidth = memory_bandwidth(bytes, 1, kQuickEffort);
    benchmark::AddCustomContext(fmt::format("memory_{}", level),
                                fmt::format("copy {:.0f}, reduce {:.0f} GB/s read and written, 1 thread",
                                            bandwidth.copy_gbps, bandwidth.reduce_gbps));
  };
  add_bandwidth("L2", machine.l2_bytes / 2);
  add_bandwidth("DRAM", 4 * machine.l3_bytes);
}

// Prints the help before the flags, which Google Benchmark lists by itself.
void print_help() {
  fmt::print(
      "Measures parts of Wreath alone: copies, reductions and casts by instruction set, FIFO hops, steps, plans.\n"
      "docs/benchmarking.md says what the names mean. All of it takes minutes; it is made to be filtered:\n"
      "  micro --benchmark_list_tests=true                       the names\n"
      "  micro --benchmark_filter=reduce/float16                 those with this in their name\n"
      "  micro --benchmark_filter=fifo --benchmark_repetitions=5 --benchmark_out=fifo.json\n"
      "\nUsage: micro [FLAGS of Google Benchmark]; exit code 2 where no name matches\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace wreath::perf

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) wreath::perf::print_help();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  wreath::perf::add_context();
  wreath::perf::register_reduce();
  wreath::perf::register_copies();
  wreath::perf::register_fifo();
  wreath::perf::register_steps();
  wreath::perf::register_plans();
  wreath::perf::register_executor();
  wreath::perf::register_training();
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return matched == 0 ? 2 : 0;
}
