// What the parts of gpu_perf share: the device, ranks that are threads with streams on it, and what is printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "wreath/communicator.hpp"
#include "wreath/device.hpp"

namespace wreath::perf {

struct GpuSetup {
  Device* device = nullptr;
  MemoryUse memory = MemoryUse::Plain;
  std::vector<int> ranks{2, 4, 8};
  std::size_t most_bytes = std::size_t{256} << 20;  // of a call
  int iterations = 20;
  int calls = 10'000;  // of the mixed ones
};

// A rank's stream and buffers on the device.
struct OnStream {
  static Result<OnStream> make(const GpuSetup& setup, std::size_t input_bytes, std::size_t output_bytes);
  Call call(Collective collective, DataType dtype, std::size_t count) const;

  DeviceMemory input;
  DeviceMemory output;
  std::unique_ptr<Stream> stream;  // ends first: it may hold work on them
};

// As many communicators of this process, on the setup's device, with the other options as given.
Result<std::vector<Communicator>> make_ranks(const GpuSetup& setup, int ranks, CommunicatorOptions options = {});

using RankBody = std::function<Status(Communicator&)>;

// Runs `body` on a thread for each rank; the first error. A rank that fails aborts its communicator, so that no other
// waits for it.
Status on_ranks(std::vector<Communicator>& ranks, const RankBody& body);

// A call on float32 elements; `count` as in Call.
struct CallShape {
  Collective collective;
  std::size_t count;
  std::size_t input_bytes;
  std::size_t output_bytes;
};

// Of one such call of `ranks`, the slowest rank's average of setup.iterations, by events in its stream.
Result<double> call_ns(const GpuSetup& setup, std::vector<Communicator>& ranks, const CallShape& shape);

// What a part measured or proved. Wrong: the results were not right, and why was printed.
struct PartReport {
  nlohmann::ordered_json json;
  bool wrong = false;
};

// Copies within the device's memory, by size: GB/s of bytes copied.
Result<PartReport> measure_copies(const GpuSetup& setup);
// all_reduce by ranks and sizes, beside the copies of the same bytes that two_shot moves.
Result<PartReport> measure_all_reduce(const GpuSetup& setup);
// The same schedules by their steps and by the kernels written by hand, in turns, at one tile and at the largest sizes.
Result<PartReport> measure_executors(const GpuSetup& setup);
// A graph of 100 small all_reduces, a branch for each rank, and one of as many branches with next to nothing.
Result<PartReport> measure_graph(const GpuSetup& setup);
// Sums on the device against sums of the same inputs on the CPU.
Result<PartReport> prove_bits(const GpuSetup& setup);
// Many calls of all kinds, in four streams for each rank.
Result<PartReport> prove_mixed(const GpuSetup& setup);

}  // namespace wreath::perf
