// Each part takes less than three minutes on one GPU; under a sanitizer, which is up to a hundred times slower, only
// what is small runs.
#include "perf/gpu_check/parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace wreath::perf {
namespace {

constexpr std::array kParts{
    Part{"device", "memory, streams, events, graphs and kernels of every device", "unit_device_test", "", "", false},
    Part{"streams", "calls in streams and graphs", "conformance_device_test", "", "", false},
    Part{"executor", "every row of the registry on blocks of threads", "conformance_block_executor_test", "", "",
         false},
    Part{"nccl", "a program of NCCL's interface on the device's memory and in its streams", "nccl_device_test", "", "",
         false},
    Part{"training", "the layers on the device, and a GPT trained there on 1 and 2 ranks, beside the CPU",
         "training_device_test", "", "", false},
    Part{"copy", "copies within the device's memory", "gpu_perf", "--parts copy", "", true},
    Part{"all_reduce", "2, 4 and 8 ranks, 8 bytes to 256 MiB, beside the copies", "gpu_perf", "--parts all_reduce", "",
         true},
    Part{"executors", "the executor beside kernels written by hand, one tile to 256 MiB", "gpu_perf",
         "--parts executors", "", true},
    Part{"graph", "a graph of 100 small all_reduces, and of nothing", "gpu_perf", "--parts graph", "", true},
    Part{"bits", "results are the CPU's, bit for bit", "gpu_perf", "--parts bits", "", true},
    Part{"mixed", "10,000 collectives on 8 ranks, in 4 streams each", "gpu_perf", "--parts mixed", "", true},
    Part{"memcheck", "accesses outside of allocations, on small sizes", "gpu_perf", "--parts bits,mixed --quick",
         "memcheck", false},
    Part{"racecheck", "races in shared memory, on small sizes", "gpu_perf", "--parts bits --quick", "racecheck", false},
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
