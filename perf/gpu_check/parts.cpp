// Each part takes less than three minutes on one GPU; under a sanitizer, which is up to a hundred times slower, only
// what is small runs.
#include "perf/gpu_check/parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace wreath::perf {
namespace {

// What shows most stands first: a run may be cut short. Words of `arguments` in braces are gpu_check's to fill in.
constexpr std::array kParts{
    Part{"device", "memory, streams, events, graphs and kernels of every device", "unit_device_test", "", "", false},
    Part{"streams", "calls in streams and graphs", "conformance_device_test", "", "", false},
    Part{"bits", "results are the CPU's, bit for bit", "gpu_perf", "--parts bits {budget}", "", true},
    Part{"copy", "copies within the device's memory", "gpu_perf", "--parts copy {budget}", "", true},
    Part{"all_reduce", "2, 4 and 8 ranks, 256 MiB, 1 GiB and small, beside the copies", "gpu_perf",
         "--parts all_reduce {budget}", "", true},
    Part{"graph", "graphs of 100 small all_reduces, and what their time is made of", "gpu_perf",
         "--parts graph {budget}", "", true},
    Part{"executors", "the executor beside handwritten loops, one tile to 256 MiB", "gpu_perf",
         "--parts executors {budget}", "", true},
    Part{"mixed", "10,000 collectives on 8 ranks, in 2 streams each", "gpu_perf", "--parts mixed {budget}", "", true},
    Part{"nccl_beside", "all_reduce beside NCCL 2.30 or later, where it is here", "gpu_perf",
         "--parts nccl_beside {budget} {nccl}", "", true},
    Part{"nccl", "a program of NCCL's interface on the device's memory and in its streams", "nccl_device_test", "", "",
         false},
    Part{"training", "the layers on the device, and a GPT trained there on 1 and 2 ranks, beside the CPU",
         "training_device_test", "", "", false},
    Part{"memcheck", "accesses outside of allocations, on small sizes, by steps", "gpu_perf",
         "--parts bits,mixed --quick --ranks 2 --low-latency off {budget}", "memcheck", true},
    Part{"memcheck_small", "the same of small all_reduces as kernels of their own", "gpu_perf",
         "--parts bits,mixed --quick --ranks 2 --low-latency on {budget}", "memcheck", true},
    Part{"racecheck", "races in shared memory, on small sizes, by steps", "gpu_perf",
         "--parts bits --quick --ranks 2 --low-latency off {budget}", "racecheck", true},
    Part{"racecheck_small", "the same of small all_reduces as kernels of their own", "gpu_perf",
         "--parts bits --quick --ranks 2 --low-latency on {budget}", "racecheck", true},
};

}  // namespace

std::span<const Part> parts() { return kParts; }

const Part* find_part(std::string_view name) {
  const auto found = std::find_if(kParts.begin(), kParts.end(), [&](const Part& part) { return part.name == name; });
  return found == kParts.end() ? nullptr : &*found;
}

std::string part_names() {
  std::vector<std::string_view> names;
  for (const Part& part : kParts) names.push_back(part.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace wreath::perf
